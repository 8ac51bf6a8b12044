"""Rows of tables: their units, the conversion of their cells, and their encoding.

Offers       `tables` (public files, read strictly), `units` (private rows and their units), `parts` (units set aside),
             `split` (units to shards), `cells` (any cell to a number, a truth value, a date, a word or a null),
             `encode`, `codes` and `views` (learned from public rows), `precheck` (private rows that a plan does not
             recognise), `guard` (nothing private leaves by an error)
Its own      sources of rows: `sources` (any table, as files), `snapshots` (a table that is no file, read once),
             `databases`, `places` (object stores), `files` (Parquet, Arrow, CSV); reading: `formats` (of CSV), `sound`
             (lines and stored columns, cell by cell), `words` (columns stored as dictionaries), `names` (one text per
             unit); `spill` (rows regrouped through files); `concord_pictures` (published with a student of pictures)
"""
