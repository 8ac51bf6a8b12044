"""The door: what a session may answer, the release itself, and what a session leaves behind.

Offers       `admit` (may it be opened), `release` (the door), `checkpoint` (secrets and what a session goes on with),
             `online` (one row at a time), `known` and `asked` (rows it was asked so, and their files), `erase` (close,
             forget, erase, upgrade); by way of the same door `choose` (one answer ends the session), `rounds` (of
             tallies), `trial` (students tried out), `questions`
"""
