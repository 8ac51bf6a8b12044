"""Mechanisms, each pure: public settings, a cost, and an answer computed from explicit randomness.

Offers       one file per mechanism, with its privacy statement, its proof and the test that checks it
             on votes: `stable` (and the game that calibrates it, `adaptive_adversary`), `noisy_votes`, `laplace_votes`,
             `confident`, `sparse_vector`, `published`; `relabelled` (any of them on relabelled rows)
             on rows: `tallies` (and a unit's share of them, `contributions`); on shards: `queries`
             with one answer: `exponential`, `student_choice`, `private_test`, `error_estimate`
             shared: `mechanism` (the protocol, and mechanisms by name), `distance`, `noise`, `odds` (and attacks),
             `hypotheses` (classes whose members are all listed)
Imports      artifacts.privacy, artifacts.errors and the list in artifacts.sections; numpy, scipy and dp_accounting;
             `noise` alone OpenDP
"""
