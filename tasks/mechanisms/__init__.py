"""Ways to answer, each pure: public settings, a cost, and an answer given explicit randomness.

Offers       one file a mechanism, with its statement, its proof and the test that holds it
             of votes: `stable` (and the game that calibrates it, `adaptive_adversary`), `noisy_votes`, `laplace_votes`,
             `confident`, `sparse_vector`, `published`; `relabelled` (any of them on relabelled rows)
             of rows: `tallies` (and what a unit adds to them, `contributions`); of shards: `queries`
             with one answer: `exponential`, `student_choice`, `private_test`, `error_estimate`
             of all: `mechanism` (what each is, and all by name), `distance`, `noise`, `odds` (and attacks),
             `hypotheses` (classes listed whole)
Imports      artifacts.privacy, artifacts.errors and the list in artifacts.sections; numpy, scipy and dp_accounting;
             `noise` alone OpenDP
"""
