"""What to plan, from public figures alone; nothing is spent and nothing private is read.

Offers       `expect` (what a plan would come to), `compare` (which mechanism and cutoff), `draft` (a plan to
             start from, and the demonstration)
"""
