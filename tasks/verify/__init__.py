"""Checks of written files by code independent of the code that wrote them.

Offers       `verify` (all of a home), `published` (a session's folder by itself), `limited` (the same of what strangers
             made, with bounds on memory and time), `checked_student` (a student, before anything is made of it)
Its own      `checks` (of a session and of a home), `certificate`, `folder` (what a published one holds), `released`
             (its files, each in its form: `forms` of rounds and `answer_forms`; `rounds` and releases of sums,
             `sketched`), `signed` (the evidence beside a certificate), `measured` (the student on public test rows);
             the ledger's rule a second time: `reckoning`, `holdings`; a guarantee from its settings: `recompute`,
             `recompute_gaussian`, which read settings by `kinds` of their own
"""
