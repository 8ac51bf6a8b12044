"""The Prefect flows, the Python interface and the command line.

Offers       `api` (run, refresh, ask, load_student, and the commands) and its `results`; `classifier`
             (in scikit-learn's manner); the flows: `learn` (learn, extend, study again), `refresh` (one
             release of a stream), `ask` (questions to every shard, an estimate, the test of a student); `operation`
             (what they have in common: a deployment runs them as they are); `server` (Prefect, on its server), `page`
             (MLflow's, for `concord ui`), `install` (what an installation does once), `cli`
Its own      `vote`, `tally`, `sketch` and `hypothesis` (the ways to learn: what each asks, counts, releases and fits),
             `season` (the periods of a stream, and its clock); `run` (the context of a run, and the values its steps
             exchange), `private_stages` (stages that work in the vault), `public_stages` (stages that work on
             public rows and released files), `admit` (sessions: found, counted and begun, and warnings to the operator
             before anything is spent), `steps` (the other steps between stages, up to what is published, and restored
             in MLflow from the record), `stage` (the stage decorators), `cache` (keys and results of stages),
             `console` (the terminal), `ending` (the end of a command by a signal), `outcome` (the summary of a run),
             `home` (the home folder, and the memo of a run in it), `hosted` (the process of a server), `cluster`
             (threads or Dask for teachers)
Imports      tasks and artifacts; nothing else imports Prefect, Typer or Rich
"""
