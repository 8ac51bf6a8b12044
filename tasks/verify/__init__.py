"""Checks of written files by code independent of the code that wrote them.

Offers       `verify` (all of a home), `published` (a session's folder by itself, as any reader), `certificate` (a
             certificate against the ledger of its home, before a student is handed on), `checks` (results; checks of
             strangers' files within limits)
Its own      `records` (what a published folder holds, each record in its type: `forms` of released files); `released`
             (they say what the certificate says), `sums` (rounds, releases, sketches), `reproduce` (the student and its
             figures); the ledger's rule a second time: `replay`; a guarantee from its settings: `recompute`, by
             kinds of its own (what they share: `kinds`, `recompute_discrete`, `recompute_gaussian`)
"""
