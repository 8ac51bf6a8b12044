"""Queries on private rows that need more than a count: a hypothesis to relabel by, and questions to shards.

Offers       `relabel` (the hypothesis class, the choice, the rows that teachers see), `questions` (a user's function of
             a shard's rows)
Its own      `answers` (those allowed, and the process in which a shard answers)
"""
