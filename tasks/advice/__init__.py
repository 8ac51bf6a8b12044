"""Advice on plans, from public figures alone; nothing is spent and nothing private is read.

Offers       `tallies` and `votes` (planned ones), `rehearse`, `rehearse_tallies` and `rehearse_votes` (a plan on public
             rows with synthetic labels), `rehearse_sketch` (on plausible rows of a schema), `synthetic_labels`,
             `choose` (the mechanism for "auto"), `cover` (whether the domain's budget covers a plan), `keys` (reference
             of a plan's keys), `draft` (a first plan), `draft_schema` (columns to declare), `init` (its settings, and
             the file), `report` (a plan's whole report), `demo` (the demonstration)
"""
