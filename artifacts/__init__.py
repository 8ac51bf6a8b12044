"""Types and stores: what the stages hand each other, and what is kept.

Offers       of a plan: `plan`, `sections` and `learners` (its sections), `sources` (tables as it names them)
             of the guarantee: `privacy` (costs, composition), `gaussian`, `domains` (the filters), `parts` (a domain
             divided), `sessions`, `guarantee`
             of what is published: `certificate`, `answers` (that of questions), `measures`, `attestation`,
             `model_signature`, `vulnerabilities` (known faults of earlier versions)
             of all: `schemas`, `settings` (what the environment says), `errors`
             stores: `ledger` (what was spent), `home` (private and released files), `mlflow` (the mirror)
Imports      nothing of flows and tasks
"""
