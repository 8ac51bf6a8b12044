"""What runs, and what a run stands on.

Offers       `api` (run, open_session, load_student); the flows, each a paragraph to read: `learn` (of votes: learn,
             extend, study again, estimate), `tally`, `universal`, `trial` (private tests of a student); `start` (a flow
             on its servers, once or by cron), `scheduled` (flows as deployments), `cli`
Its own      `run` (what a run stands on, and the values its steps hand each other), `stages` (what they call), `steps`
             (what a run does between them), `stage` (what a stage is), `cache` (its key and its result), `console`
             (what a terminal shows, and how a command ends), `outcome`, `mirror` (MLflow made good from the ledger and
             the released files), `environment`, `server`, `hosted`
Imports      tasks and artifacts; Prefect, Typer and Rich are known here alone
"""
