"""What is published of a session, from released files and the ledger alone.

Offers       `describe` (what a certificate says), `certify` (its files, with the report), `figures`, `plan_figure`,
             `track` (what MLflow is given)
"""
