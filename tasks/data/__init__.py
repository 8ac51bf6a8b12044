"""Rows of tables: the conversion of their cells, and their encoding.

Offers       `tables` (rows in files, public or private), `cells` (any cell to a number, a truth value, a date, a word
             or a null), `encode`, `codes`, `vectors` and `joined` (learned from public rows), `matrix` (rows as
             numbers), `grid` (cells of a declared schema, and values in them), `remarks` (what public columns seem to
             hold), `precheck` (what a plan does not recognise in private ones)
Its own      readers of rows: `files` (one file of a table), `csv_files` (lines, and how they are written),
             `stored_columns` (of Parquet and Arrow, cell by cell), `frames` (of Python), `sources` (stores, databases
             and frames, read once into a snapshot), `places` (what is read like a path); `concord_student` and
             `concord_pictures` (published with a student, and with one of pictures)
"""
