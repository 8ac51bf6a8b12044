"""Ways to answer, each pure: public settings, a cost, and an answer given explicit randomness.

Offers       one file a mechanism, with its statement, its proof and the test that holds it; `mechanism` (what each of
             them is, and all by name), `distance`, `noise`, `odds` (and attacks); `hypotheses` (classes listed whole)
Imports      artifacts.privacy, artifacts.errors and the list in artifacts.sections; numpy, scipy and dp_accounting;
             `noise` alone OpenDP
"""
