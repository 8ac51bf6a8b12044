"""A home folder's files.

Offers       `vault` (everything private), `released` (everything published), `atomic` (files written whole, locks, and
             the folder's format), `signing` (the key that signs what is published), `empty` (databases to begin with),
             `users` (whose a file is)
"""
