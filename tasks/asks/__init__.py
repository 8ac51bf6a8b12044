"""The catalogue of what can be asked: one file a kind of release, each a kind of `tasks.door.ask.Ask`.

Offers       in steps: `votes` (labels of public rows), `tallies` (rounds of noisy sums), `sketch` (tables of
             private rows before them), `stream` (a release for each period of rows that arrive), `share` (of one of
             several homes) and `joint` (their sum), `questions` (to shards)
             with one answer: `hypothesis` (a student chosen among all hypotheses of a class), `student_choice` (among
             candidates), `student_test`, `estimate` (how much teachers err), `counts` (of groups); `counted`
             (exact counts of private units, also by a student's predictions)
             of votes, one row at a time: `online`, and `known` (the rows it was asked)
             `labelled` (which sessions of labels can be extended, studied or tested again)
             for what is published of each: `kinds` (proof, words, what an outcome says)
             for what is not yet: `unfinished` (the command that finishes a session)
"""
