"""The door: admission of sessions, the release of answers, and the end of sessions.

Offers       `admit` (opening a session), `release` (the door), `checkpoint` (secrets, and the state of a session),
             `online` (one row at a time), `known` and `asked` (rows it was asked so, and their files), `erase` (close,
             forget, erase, upgrade); by way of the same door `choose` (one answer ends the session), `rounds` (of
             tallies), `trial` (students tried out), `questions`
"""
