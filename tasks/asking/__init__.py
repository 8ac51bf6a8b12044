"""Queries on private rows: votes of teachers, a hypothesis to relabel by, sums, and questions.

Offers       `teachers` (teach, poll), `relabel` (the hypothesis class, the choice, the rows that teachers see),
             `tally` (sums over the rows for one round), `questions` (a user's function of a shard's rows)
Its own      for teachers: `arrays` (the linear ones of a block at once), `linear`, `logistic` and `gradients` (how they
             are fitted); for questions: `shards` (asked one after another), `alone` (each in a process of its own),
             `answers` (the answers allowed)
"""
