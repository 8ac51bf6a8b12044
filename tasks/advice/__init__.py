"""Advice on plans, from public figures alone; nothing is spent and nothing private is read.

Offers       `planned` (what a plan asks, and the mechanism for "auto"), `public_facts` (what it is planned by),
             `report` (of a plan, with whether the domain's budget covers it); `rehearse` (synthetic labels, and what
             was learned of them), `rehearse_tallies` and `rehearse_votes` (a plan on public rows), `rehearse_sketch`
             (on plausible rows of a schema), `expectation` (of guessed or simulated votes); `draft` (a first plan, and
             columns to declare), `dictionary` (a data dictionary as a schema), `init` (the settings of a plan, and the
             file), `demo` (the demonstration, and files that are shipped)
"""
