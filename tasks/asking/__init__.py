"""What is asked of private rows: votes of teachers, and a hypothesis to relabel by.

Offers       `teachers` (teach, poll), `relabel` (the class of hypotheses, the choice, the rows as teachers see them)
"""
