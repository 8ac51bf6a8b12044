"""The catalogue of what can be asked: one file a kind of release, each a kind of `tasks.door.ask.Ask`.

Offers       one file a kind; `sketch` and `stream` have what is special in tallies without public rows and of arriving
             units; `labelled`: which sessions of labels can be extended or studied again; `kinds`: for each kind, what
             it releases in words, and the meaning of an outcome
"""
