"""Names of 1.x that 2.0.0 does not have, each with the alternative: keys of the plan, and commands as `concord NAME`.

Checked by tests/artifacts/test_plan.py.
"""

GONE: dict[str, str] = {
    "data.format.quote": 'a CSV cell is quoted by " alone; write a table with other quotes, or none, as Parquet',
    "data.format.quoted_line_breaks": "a line of a CSV file is a row; write cells with line breaks as Parquet",
    "data.most_unknown_labels": "data.most_unknown is the threshold of every column",
    "relabel.form": "rows are resampled within each shard, so that each reaches one teacher",
    "data.private.delta": "name the files of the table, such as Parquet, or a query",
    "data.public.delta": "name the files of the table, such as Parquet, or a query",
    "data.test.delta": "name the files of the table, such as Parquet, or a query",
    "privacy.lifetime.filter": "charges add up by Rényi order",
    "concord count": "`concord.ask` asks the shards, and a plan with data.schema releases noisy tables",
    "concord serve": "call `concord extend` or `concord refresh` from the machine's cron, or deploy prefect.yaml",
    "concord link": "a table belongs to one domain, and each domain's cap is promised by itself",
    "homes": "a plan is of one holder of private rows",
    "concord lead": "a plan is of one holder of private rows",
    "concord contribute": "a plan is of one holder of private rows",
    "concord homes": "a plan is of one holder of private rows",
    "concord test": "the plan's [test] share sets units aside, and `concord run PLAN` tests its student on them once",
    "concord attack": "the curve on the report's first page bounds every attacker, and tests/privacy attacks each kind",
    "concord audit": "attacks on every mechanism are tests, in tests/privacy of Concord's source",
    "student.candidates": "compare on the public test table; [test] share tests each session's student, at its price",
    "concord certify": "the report answers what reviewers ask, and `concord export` writes a model card",
    "concord dossier": "the report answers what reviewers ask, and `concord verify` checks it",
    "concord explain": "the report shows feature effects, and `concord export` writes the scorecard",
}
