"""The ledger: one append-only table of chained records, and the state that they add up to.

Offers       `ledger` (read, reserve, commit, settle), `excerpt` (the published part of the ledger), `home_contents`
             (what the home holds, which shows that a ledger was changed)
Its own      `events` (the entries), `state` (their sum, and which entries may follow), `reading` (queries of the
             state), `database` (the table; nothing else imports SQLAlchemy)
"""
