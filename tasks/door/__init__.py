"""The door: admission of sessions, the release of answers, and the end of sessions. It knows no kind of release.

Offers       `ask` (what it needs to know of anything that is asked), `admit` (opening a session), `door` (one step of
             any session), `exact` (private numbers, and what is drawn from them), `randomness` (of a session), `locks`
             (of a home), `keys` (secrets of domains and streams), `checkpoint` (the files and the state of a session),
             `erase` (close, forget, erase)
"""
