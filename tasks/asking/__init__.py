"""Queries on private rows: votes of teachers, a hypothesis to relabel by, sums, and questions.

Offers       `teachers` (teach, poll), `relabel` (the hypothesis class, the choice, the rows that teachers see),
             `tally` (sums over the rows for one round), `questions` (a user's function of a shard's rows)
Its own      for teachers: `arrays` (linear ones as one array); for questions: `answers` (those allowed, and the process
             in which a shard answers)
"""
