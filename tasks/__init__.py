"""The work of each stage, in rooms by what they may see.

    data         private and public rows: read, cast, split, encoded
    asking       teachers and their votes; a secret subset relabelled
    door         the one place where private becomes public, with the ledger at it
    student      what is learned from released labels
    publish      certificate, report, figures, and what MLflow is given
    verify       what was written, checked by another path
    advice       what a plan would come to, from public figures alone
    mechanisms   pure: each way to answer, with its statement, its proof and its cost

Imports go down: publish and verify see student and door; door sees asking and advice; those see data; all see
mechanisms, which see costs alone.
"""
