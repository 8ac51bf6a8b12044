"""What is published of a session, from released files and the ledger alone.

Offers       `describe` (what a certificate says), `certify` (its files, with the report), `track` (what MLflow is
             given); of what was published: `statements` (a certificate in the words of others), `export` (a student as
             a folder), `predict` (classes of further rows); `plan_figure`
Its own      `outcomes` (what became of the rows), `attest` (the evidence beside a certificate), `figures`,
             `disclosures` (prose: model card, registry, guideline)
"""
