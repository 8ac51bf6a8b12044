"""Rows of tables: whose they are, what their cells become, and how they are encoded.

Offers       `cells` (any cell to a number, a truth value, a date, a word or a null), `tables` (public files, read
             strictly), `sound` (lines and stored columns, cell by cell), `names` (one text a unit), `units` (private
             rows and whose they are), `split` (units to shards), `encode`, `codes` and `views` (learned from public
             rows), `guard` (nothing private leaves by an error)
"""
