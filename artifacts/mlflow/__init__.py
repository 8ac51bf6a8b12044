"""MLflow as a mirror: what it is given, and what it shows.

Offers       `store` (made whole before it is used), `write`, `read`; and what knows no MLflow: `describe` (words and
             numbers of a publication), `pages` (of a domain and its students), `last` (what it answered last)
"""
