"""Rows of tables: whose they are, what their cells become, and how they are encoded.

Offers       `tables` (public files, read strictly), `units` (private rows and whose they are), `parts` (units set
             aside), `split` (units to shards), `cells` (any cell to a number, a truth value, a date, a word or a null),
             `encode`, `codes` and `views` (learned from public rows), `precheck` (what of the private rows a plan does
             not recognise), `guard` (nothing private leaves by an error)
Its own      where rows lie: `sources` (any table, as files), `snapshots` (one that is no file, read once), `databases`,
             `places` (object stores), `files` (Parquet, Arrow, CSV); how they are read: `formats` (of CSV), `sound`
             (lines and stored columns, cell by cell), `words` (columns that a file stores by their words), `names` (one
             text a unit); `concord_pictures` (travels with a student of pictures)
"""
