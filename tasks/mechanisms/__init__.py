"""Mechanisms, each pure: public settings, a cost, and an answer computed from explicit randomness.

Offers       one file per mechanism, with its privacy statement, its proof and the test that checks it; `relabelled`
             runs those on votes on relabelled rows
             shared: `catalogue` (from what is recorded), `mechanism` (settings, and the protocol of those on votes),
             `gaussian` (the base of all whose noise is Gaussian, and what they cost), `noise`, `distance`,
             `contributions` (of a unit to sums), `hypotheses` (stumps and rectangles, all listed)
             beside the core: `calibration` (settings within a budget) and `refusal_tables` (of stable voting)
Imports      artifacts.privacy, errors and schemas, and the list in artifacts.sections; numpy, scipy, pydantic and
             dp_accounting; `noise` alone OpenDP
"""
