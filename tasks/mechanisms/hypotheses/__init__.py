"""Hypothesis classes, listed whole: every dichotomy they make of given rows.

Offers       `catalogue` (classes by name), `dichotomies` (what a class is), `boxes`, `halfspaces`
"""
