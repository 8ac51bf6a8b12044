"""A home folder's files.

Offers       `vault` (everything private), `released` (everything published), `whole` (files written whole, locks, and
             the folder's format)
Its own      `cipher`
"""
