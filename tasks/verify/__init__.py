"""What was written, checked by another path than the one that wrote it.

Offers       `verify` (all of it), `checks` (of a session and of a home), `certificate`,
             `reckoning` (the ledger's rule a second time), `recompute` (a guarantee from its settings), `audit`
             (attacks on a mechanism as it runs)
"""
