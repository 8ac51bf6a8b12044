"""Remarks: what stands on the record of a domain and charges nothing.

    forgotten   a session's key, teachers and votes were destroyed; about: the session
    erased      a unit's rows, and what depended on them, were destroyed; about: a keyed digest of the unit's id
    linked      the domain may hold files, and people, of another one; about: that domain

Checked by tests/test_remarks.py.
"""

from dataclasses import dataclass
from typing import Literal

RemarkKind = Literal["forgotten", "erased", "linked"]


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something that is so of a domain from here on.

    about    what it is said of, by a name that may be told or a keyed digest: never a private value or plain digest
    reason   why, in the operator's words; may be empty
    """

    kind: RemarkKind
    about: str
    reason: str = ""
