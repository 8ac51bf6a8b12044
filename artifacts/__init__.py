"""Types and stores: what the stages hand each other, and what is kept.

Offers       `plan`, `certificate`, `guarantee`, `privacy` (costs, composition), `domains` (the filters), `sessions`,
             `schemas`, `settings` (what the environment says), `errors`; `ledger` (what was spent), `home` (private and
             released files), `mlflow` (the mirror)
Imports      nothing of flows and tasks
"""
