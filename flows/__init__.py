"""The Prefect flows, the Python interface and the command line.

Offers       `api` (run, ask, open_session, load_student); the flows: `learn` (learn, extend, study again, estimate),
             `tally`, `universal`, `ask` (a question to every shard), `again` (one more test of a student); `start` (a
             flow on its servers, once or by cron), `scheduled` (flows as deployments), `cli`
Its own      `run` (the context of a run, and the values its steps exchange), `stages` (the stages), `steps` (the steps
             between stages), `vote` and `trial` (the steps of votes, and of private tests of a student), `stage` (the
             stage decorators), `cache` (keys and results of stages), `replay` (a cached run without an engine),
             `precheck` (warnings to the operator before anything is spent), `console` (progress on a terminal, and
             signals), `outcome` (the summary of a run), `mirror` (MLflow restored from the ledger and the released
             files), `environment` (settings of Prefect and MLflow), `database` (Prefect's), `server`, `hosted` (the
             process of a server), `cluster` (threads, processes or Dask for teachers)
Imports      tasks and artifacts; nothing else imports Prefect, Typer or Rich
"""
