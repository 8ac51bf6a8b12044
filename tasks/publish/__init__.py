"""Publish a session, from released files and the ledger alone.

Offers       `describe` (the content of a certificate), `certify` (its files, with the report), `track` (its records in
             MLflow); from published files: `statements` (a certificate in the terms of others), `export` (a student as
             a folder), `predict` (classes of further rows), `dossier` (answers to reviewers),
             `explain` (feature effects)
Its own      `attest` (the evidence published with a certificate), `figures`, `disclosures` (prose: model card,
             registry, guideline), `first_page` (what report and dossier begin with)
"""
