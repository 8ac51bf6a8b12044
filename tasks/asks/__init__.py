"""The catalogue of what can be asked: one file a kind of release, each a kind of `tasks.door.ask.Ask`.

Offers       one file a kind; `sketch` and `stream` have what is special in tallies without public rows and of arriving
             units; `hypothesis_space`: the class of hypotheses that a plan names; `labelled`: which sessions of labels
             can be extended or studied again; `kinds`: for each kind, what it releases in words, and the meaning of an
             outcome
"""
