"""What to plan, from public figures alone; nothing is spent and nothing private is read.

Offers       `guess` (how much teachers agree), `worth` (what a student gets), `compare` (which mechanism and cutoff),
             `tallies` (what they would be), `choose` (what "auto" stands for), `expect` (what a plan would come to),
             `cover` (whether the domain's budget covers it), `candidates` (what a choice among students costs), `keys`
             (what each key of a plan means), `draft` (a plan to start from), `suggest` (which one), `demo` (the
             demonstration)
"""
