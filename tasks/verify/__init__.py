"""What was written, checked by another path than the one that wrote it.

Offers       `verify` (all of it), `checks` (what is looked at, and what a home holds), `certificate`, `mlflow`,
             `reckoning` (the ledger's rule a second time), `recompute` (a guarantee from its settings), `audit`
             (attacks on a mechanism as it runs)
"""
