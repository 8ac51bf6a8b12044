"""Questions to shards.

Offers       `questions` (a user's function of a shard's rows)
Its own      `answers` (those allowed, and the process in which a shard answers)
"""
