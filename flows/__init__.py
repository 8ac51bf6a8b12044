"""What runs, and what a run stands on.

Offers       `api` (run, ask, open_session, load_student); the flows, each a paragraph to read: `learn` (of votes:
             learn, extend, study again, estimate), `tally`, `universal`, `ask` (a question to every shard), `again`
             (one more test of a student); `start` (a flow on its servers, once or by cron), `scheduled` (flows as
             deployments), `cli`
Its own      `run` (what a run stands on, and the values its steps hand each other), `stages` (what they call), `steps`
             (what a run does between them), `vote` and `trial` (the same for votes alone, and for private tests of a
             student), `stage` (what a stage is), `cache` (its key and its result), `replay` (a cached run without an
             engine), `precheck` (what the operator hears before anything is spent), `console` (what a terminal shows,
             and how a command ends), `outcome`, `mirror` (MLflow made good from the ledger and the released files),
             `environment`, `database` (Prefect's), `server`, `hosted` (what a server's process runs), `cluster` (where
             teachers learn and vote)
Imports      tasks and artifacts; Prefect, Typer and Rich are known here alone
"""
