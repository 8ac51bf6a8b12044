"""Rows of tables: the conversion of their cells, and their encoding.

Offers       `tables` (public files, read strictly), `cells` (any cell to a number, a truth value, a date, a word or a
             null), `encode`, `codes` and `vectors` (learned from public rows), `matrix` (rows as numbers), `grid`
             (cells of a declared schema, and values in them), `remarks` (what public columns seem to hold, and what a
             plan does not recognise in private ones)
Its own      sources of rows: `sources` (any table, as files), `snapshots` (a table that is no file, read once),
             `frames` (of Python), `remote` (databases, object stores), `files` (Parquet, Arrow, CSV),
             `places` (what is read like a path); reading: `csv_files` (lines, and how they are written),
             `stored_columns` (of Parquet and Arrow, cell by cell); `concord_student` and `concord_pictures` (published
             with a student, and with one of pictures)
"""
