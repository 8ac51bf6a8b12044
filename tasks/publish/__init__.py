"""Publish a session, from released files and the ledger alone.

Offers       `describe` (the content of a certificate), `certify` (its files, the evidence, and its record in MLflow);
             from published files: `export` (a student as a folder, with the model card), `predict` (classes of further
             rows, and CSV files)
Its own      `report` (the certificate as a page), `figures`, `tables` (a sketch's noisy counts)
"""
