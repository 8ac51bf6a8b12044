"""Types and stores: the values that stages exchange, and everything that is kept.

Offers       the plan: `plan` (and what is wrong with one), `sections`, `learners`, `sources` (the tables it names),
             `table_schema` (declared in place of public rows) and `properties` (of its standard)
             the guarantee: `privacy` (costs, composition), `domains` (the filter), `parts` (divided domains),
             `sessions` and `facts` (what their settings say), `guarantee`
             publications: `certificate`, `student_warnings`, `records` (of its sessions), `measures`,
             `published` (what is signed and handed on)
             general: `schemas`, `settings` (environment variables), `process` (what is set for Prefect and MLflow
             while we work), `threads` (that an interruption stops), `errors` (and how others' words are printed)
             stores: `ledger` (privacy charges), `home` (private and released files), `stores` (all three of a
             session), `mlflow` (the mirror)
Imports      nothing from flows or tasks
"""
