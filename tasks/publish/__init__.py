"""Publish a session, from released files and the ledger alone.

Offers       `describe` (the content of a certificate), `certify` (its files, with the report), `track` (its records in
             MLflow); from published files: `export` (a student as a folder), `predict` (classes of further rows)
Its own      `attest` (the evidence published with a certificate), `figures`, `disclosures` (the model card),
             `explain` (the report's feature effects), `first_page` (what the report begins with),
             `spreadsheet` (CSV files)
"""
