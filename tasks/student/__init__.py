"""Students, learned from released labels and sums and so free to publish.

Offers       `study` (the student of whatever was released), `model` (the published file), `evaluate` (on public
             labelled rows, and by group) and `intervals` (of its figures); for tallies: `questions` (of each round, and
             of pairs of columns) and `decode` (a model from released sums), by `joint` (Gauss–Newton steps), `prior`
             (learned from the sums), `public_rows` (a sample made like the private ones, and its cross tables) and
             `directions` (of wide tables); for a sketch: `sketch` (its questions), `margins` and `synthetic` (rows that
             resemble released tables); `rounds` (how many are asked, and at which share of the budget);
             `running_totals` (of a stream); `private_figures` (of a private test)
Its own      `concord_published` and `concord_tallied` (published with a student, as tasks.data.concord_student is),
             `scorecard` (a linear student as points and as SQL), `trust` (types and values allowed in its file)
"""
