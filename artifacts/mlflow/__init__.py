"""MLflow as a mirror of what was released.

Offers       `store` (the database, made before it is used), `write`, `read`; and without importing MLflow: `describe`
             (texts and numbers of a publication, of a domain and its students)
"""
