"""A home folder's files.

Offers       `vault` (everything private), `released` (everything published), `whole` (files written whole, locks, and
             the folder's format), `signing` (the key that signs what is published), `empty` (databases to begin with),
             `merged` (small files of the vault, many as one)
Its own      `cipher` (files of the vault, encrypted), `token` (a key that lies elsewhere)
"""
