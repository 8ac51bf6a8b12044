"""What runs: one file a sentence, and what a run stands on.

Offers       `api` (run, open_session, load_student), `learn`, `tally`, `universal`, `extend`, `study`, `trial` (one
             more test of a student) and `estimate` (the flows, each a paragraph to read), `start` (a flow on its
             servers, once or by cron), `scheduled` (flows as deployments), `cli`
Its own      `run` (what a run stands on, and the values its steps hand each other), `stages` and `rounds` (all of
             them), `steps` (what a run does between them), `trying` (a private test), `stage` (what a stage is),
             `cache` (its key and its result), `console`, `outcome`, `mirror` (MLflow made good from the ledger and the
             released files), `environment`, `server`, `hosted`, `leaving`
Imports      tasks and artifacts; Prefect, Typer and Rich are known here alone
"""
