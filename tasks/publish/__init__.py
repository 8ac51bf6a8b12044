"""What is published of a session, from released files and the ledger alone.

Offers       `certify` (certificate and report), `figures`, `track` (what MLflow is given)
"""
