"""Mechanisms, each pure: public settings, a cost, and an answer computed from explicit randomness.

Offers       one file per mechanism, with its privacy statement, its proof and the test that checks it; `relabelled`
             runs those on votes on relabelled rows
             shared: `mechanism` (the protocol, and mechanisms by name), `contributions` (of a unit to sums), `noise`,
             `distance`, `gaussian` (tails in decimals), `odds`, `hypotheses` (stumps and rectangles, all
             listed), `progress` (how far a release is)
Imports      artifacts.privacy, artifacts.errors and the list in artifacts.sections; numpy, scipy and dp_accounting;
             `noise` alone OpenDP
"""
