"""A home folder's files.

Offers       `vault` (everything private), `released` (everything published), `whole` (files written whole, locks, and
             the folder's format), `signing` (the key that signs what is published), `empty` (databases to begin with),
             `merged` (many small files of the vault stored as one)
Its own      `cipher` (encryption of the vault's files), `token` (signing keys outside the vault)
"""
