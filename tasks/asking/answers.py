"""Answers that a shard may give to a question, and their canonical text.

A shard answers None, true or false, an integer, a float, text, bytes, or a tuple or frozenset of these. Answers are
compared by their canonical text: 1, 1.0 and True differ, and so do 0.0 and −0.0; all NaNs are equal, and sets have no
order. Python's equality and hashes are not used, since they differ between types and processes. Every text can be
written to a certificate and read back. Checked by tests/tasks/asking/test_answers.py
"""

from collections.abc import Hashable
from typing import Any

import cloudpickle
import numpy as np

from concord.artifacts.schemas import canonical_json

LONGEST = 4096
"""Most characters of an answer's canonical text."""
LARGEST_INTEGER = 8192
"""Most bits of an integer in an answer: the digits of a larger one take long to write."""
DEEPEST = 32
"""Deepest nesting of tuples and frozensets."""


def canonical(answer: object) -> str:
    """The canonical text of an answer: ASCII, JSON. Raises TypeError or ValueError if the answer has none."""
    text = canonical_json(_plain(answer, DEEPEST))
    if len(text) > LONGEST:
        raise ValueError(f"an answer must be at most {LONGEST} characters long, got {len(text)}")
    return text


def _plain(answer: object, levels: int) -> Any:
    """The answer as JSON; two answers that a reader could distinguish differ. Subclasses count by their value alone."""
    if levels < 0:
        raise ValueError(f"an answer must be nested at most {DEEPEST} levels deep")
    if isinstance(answer, np.generic):
        answer = answer.item()
    if answer is None or answer is True or answer is False:
        return answer
    if isinstance(answer, int):
        if int.bit_length(answer) > LARGEST_INTEGER:
            raise ValueError(f"an integer in an answer must be of at most {LARGEST_INTEGER} bits")
        return {"int": hex(answer)} if int.bit_length(answer) > 53 else int.__int__(answer)
    if isinstance(answer, float):
        return {"float": float.hex(answer)}
    if isinstance(answer, str):
        str.encode(answer)  # raises ValueError for half a surrogate pair, which no reader of JSON takes back
        return str.__str__(answer)
    if isinstance(answer, bytes):
        return {"bytes": bytes.hex(answer)}
    if isinstance(answer, tuple):
        return [_plain(part, levels - 1) for part in tuple.__iter__(answer)]
    if isinstance(answer, frozenset):
        return {"set": sorted((_plain(part, levels - 1) for part in frozenset.__iter__(answer)), key=canonical_json)}
    kinds = "None, true or false, a number, text, bytes, a tuple or a frozenset of such"
    raise TypeError(f"an answer must be {kinds}, got {type(answer).__name__}")


def from_plain(value: Any) -> Hashable:
    """The answer with this JSON."""
    match value:
        case {"int": text}:
            return int(text, 16)
        case {"float": text}:
            return float.fromhex(text)
        case {"bytes": text}:
            return bytes.fromhex(text)
        case {"set": parts}:
            return frozenset(map(from_plain, parts))
        case list():
            return tuple(map(from_plain, value))
    plain: Hashable = value
    return plain


NO_ANSWER = canonical(None)
"""Answer of a shard on which the question fails or returns None."""


PASSED = canonical(True)
"""Answer of a rehearsal if the question can be asked."""


def fault_of(question: bytes, rows: object) -> bool | str:
    """True if the question can be asked of public `rows`, otherwise the reason; run in a process of its own."""
    try:
        canonical(cloudpickle.loads(question)(rows))
    except BaseException as wrong:
        return reason_of(wrong)
    return True


def reason_of(wrong: BaseException) -> str:
    """The type of an exception and the first line of its message."""
    return f"{type(wrong).__name__}: {str(wrong).partition(chr(10))[0]}"[:400]
