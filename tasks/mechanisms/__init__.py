"""Mechanisms, each pure: public settings, a cost, and an answer computed from explicit randomness.

Offers       one file per mechanism, with its privacy statement, its proof and the test that checks it
             on votes: those of `artifacts.sections.MECHANISMS`; `relabelled` (any of them on relabelled rows)
             on rows: `tallies` (and a unit's share of them, `contributions`), `sketch` (tables of the rows, then
             tallies), `stream` (of units that arrive), `homes` (of several holders); on shards: `queries`
             with one answer: `exponential` (choices), `private_test`, `error_estimate`, `group_counts`
             shared: `mechanism` (the protocol, and mechanisms by name), `distance`, `noise`, `gaussian` (tails in
             decimals), `odds` (and attacks), `hypotheses` (classes whose members are all listed), `telling` (how
             far a release is)
Imports      artifacts.privacy, artifacts.errors and the list in artifacts.sections; numpy, scipy and dp_accounting;
             `noise` alone OpenDP
"""
