"""Hypothesis classes, listed whole: every dichotomy they make of given rows.

Offers       `dichotomies` (what a class is), `boxes`, `halfspaces`; `tasks.asking.relabel` knows the classes by name
"""
