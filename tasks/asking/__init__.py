"""What is asked of private rows: votes of teachers, a hypothesis to relabel by, sums, and questions.

Offers       `teachers` (teach, poll), `relabel` (the class of hypotheses, the choice, the rows as teachers see them),
             `tally` (what rows add up to, for one round), `questions` (a user's function of a shard's rows)
Its own      of teachers: `arrays` (linear ones of a block at once), `linear`, `logistic` and `gradients` (how they are
             fitted); of questions: `shards` (asked one after another), `alone` (each in a process of its own),
             `answers` (what may be answered)
"""
