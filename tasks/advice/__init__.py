"""Advice on plans, from public figures alone; nothing is spent and nothing private is read.

Offers       `compare` (voting mechanisms and cutoffs), `tallies` (planned tallies), `rehearse`, `rehearse_tallies` and
             `rehearse_votes` (a plan on public rows with synthetic labels), `rehearse_sketch` (on plausible rows of a
             schema), `synthetic_labels`, `choose` (the mechanism for "auto"), `expect` (expected results of a plan, and
             the cost of choices), `cover` (whether the domain's budget covers it), `keys` (reference of a plan's keys),
             `draft` (a first plan), `draft_schema` (columns to declare), `suggest` (votes or tallies for it), `init`
             (its settings, and the file), `report` (a plan's whole report), `demo` (the demonstration)
"""
