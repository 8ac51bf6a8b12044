"""MLflow as a mirror: what it is given, and what it shows.

Offers       `describe` (words and numbers of a publication; knows no MLflow), `store` (made whole before it is used),
             `write`, `read`, `last` (what it answered last; knows no MLflow either)
"""
