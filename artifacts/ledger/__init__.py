"""The ledger: one append-only table of chained records, and what they add up to.

Offers       `ledger` (read, reserve, commit, settle), `witness` (a file outside the home that sees how far it came),
             `excerpt` (what is published of it)
Its own      `events` (what is written down), `state` (what that adds up to), `reading` (what that says to whoever
             asks), `database` (the table; SQLAlchemy is known here alone)
"""
