"""Private rows and the units they belong to: what is read, which part and shard a unit is in, and what may leave.

Offers       `units` (private rows and their units), `identifiers` (one text per unit), `parts` (units set aside),
             `split` (units to shards), `arrivals` (files of one period, and units not seen before), `blocks` (rows as
             codes), `sums` (counted over blocks), `spill` (rows regrouped through files), `guard` (nothing private
             leaves by an error)
"""
