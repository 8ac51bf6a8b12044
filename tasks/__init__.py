"""The work of each stage, in folders by the data they may read.

    data         private and public rows: read, cast, split, encoded
    asking       teachers and their votes; a secret subset relabelled
    door         the only place where private data is released, with every spend in the ledger
    student      students, learned from released labels
    publish      certificate, report, figures, and records in MLflow
    verify       independent checks of written files
    advice       plans: a first one, what one costs, and its simulation on public rows
    mechanisms   pure mechanisms, each with its statement, its proof and its cost

Imports go down: publish and verify see student and door; door sees asking and advice; those see data; all see
mechanisms, which see costs alone.
"""
