"""Hypothesis classes with a list of every dichotomy they make of given rows.

Offers       `dichotomies` (the base classes), `boxes`; `tasks.asking.relabel` finds classes by name
"""
