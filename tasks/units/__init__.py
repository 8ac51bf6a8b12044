"""Private rows and the units they belong to: what is read, which part and shard a unit is in, and what is counted.

Offers       `units` (private rows and their units), `identifiers` (one text per unit), `parts` (units set aside),
             `split` (units to shards), `relabel` (labels of a secret subset by one hypothesis), `arrivals` (files of
             one period, and units not seen before)
             shards: `teachers` (one model a shard, and its one vote on each row), `linear` (those that are one array)
             sums: `blocks` (rows as codes), `sums` (counted over blocks), `counts` (of units, by what is said of each)
             `provenance` (how a file was made), `spill` (rows regrouped through files), `guard` (nothing private
             leaves by an error)
"""
