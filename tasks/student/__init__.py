"""Students, learned from released labels and sums and so free to publish.

Offers       `study` (fit, evaluate), `model` (the published file), `evaluate` (on public labelled rows, and by group)
             and `intervals` (of its figures); for tallies: `decode` (a model from released sums), by `joint`
             (Gauss–Newton steps), `crossed` (a sample of public rows, and its cross tables) and `prior` (learned from
             the sums; public rows made like the private ones), `directions` (of wide tables), and `infer` (labels,
             questions, pairs of columns and the linear student); for a sketch: `sketch` (its questions), `margins` and
             `synthetic` (rows that resemble released tables); `seasons` (those of a stream, read as one)
Its own      `concord_published` and `concord_tallied` (published with a student, as tasks.data.concord_student is),
             `scorecard` (a linear student as points and as SQL), `trust` (types allowed in its file), `fitted` (and
             values)
"""
