"""Questions: a user's function of one shard's rows, and the canonical text of what each shard answers.

    question(rows) -> an answer       rows: a polars frame of the shard's units: the plan's columns by their names, cast
                                      by the same fixed rules as for teachers, and the label column as class names

A shard answers None, true or false, an integer, a float, text, bytes, a tuple or a frozenset of such. Its answer is
known by its canonical text: 1, 1.0 and True differ, and so do 0.0 and −0.0; every NaN is one, and a set has no order.
Equality and hashes of Python, which differ between types and processes, decide nothing.

Assumes      the question is public, and its answer follows from the rows it is given alone: not from other shards'
Guarantees   every shard answers: one on which the question fails, whose answer is of no such type or longer than
             LONGEST, answers None by a fixed rule. The rows of a shard are a copy of its own, in memory of its own,
             and the global generators of Python, NumPy and Polars begin alike for each: no shard's rows, as they come
             to the question, change with another's. Nothing the question prints, warns of or raises is seen
Not covered  a question that keeps something from one shard to the next, never ends, starts threads, or writes rows
             somewhere: it is code, and runs with your rights. Checked by tests/tasks/asking/test_ask_shards.py
"""

import hashlib
import inspect
import random
import re
import textwrap
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import SHARD, PublicBatch, read_frame
from concord.tasks.data.guard import private_stage, silenced

LONGEST = 4096
"""Characters of an answer's canonical text at most."""
LARGEST = 8192
"""Bits of an integer in an answer at most: the digits of a larger one take long to write."""
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
"""What a question may be called: one line."""
REHEARSED = 256
"""Public rows that a question is tried on at most."""

Asked = Callable[[pl.DataFrame], Hashable]


@dataclass(frozen=True)
class Question:
    """What is asked of every shard: the operator's name for it, and the function that answers.

    The name is what a session knows a question by: asked by it again, the answer is replayed. So other code needs
    another name; `code`, a digest of its source text if that is known, tells where it was forgotten.
    """

    name: str
    function: Asked

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise WrongInput(f"a question must be a function of a shard's rows, got {type(self.function).__name__}")
        if not NAME.fullmatch(self.name) or self.name != self.name.strip():
            raise WrongInput(f"a question's name must be one line of 1 to 100 characters, got {self.name!r}")

    @classmethod
    def of(cls, function: Asked, name: str | None) -> "Question":
        """The question by the name given, or by that of its function. Raises WrongInput if neither names it."""
        known = str(getattr(function, "__name__", "<")) if name is None else name
        if name is None and known.startswith("<"):
            raise WrongInput("a question that is no named function needs a name: it is known by it, and paid for once")
        return cls(known, function)

    @property
    def code(self) -> str:
        """SHA-256 of its source text, which is public; empty where that is not known."""
        try:
            return hashlib.sha256(textwrap.dedent(inspect.getsource(self.function)).encode()).hexdigest()
        except (OSError, TypeError):
            return ""


def canonical(answer: object) -> str:
    """The one text of an answer: ASCII, JSON. Raises TypeError or ValueError if it can be none."""
    text = canonical_json(_plain(answer))
    if len(text) > LONGEST:
        raise ValueError(f"an answer must be at most {LONGEST} characters long, got {len(text)}")
    return text


def _plain(answer: object) -> Any:
    """As JSON that differs wherever a reader of the answer could tell; of subclasses, the value alone."""
    if isinstance(answer, np.generic):
        answer = answer.item()
    if answer is None or answer is True or answer is False:
        return answer
    if isinstance(answer, int):
        if int.bit_length(answer) > LARGEST:
            raise ValueError(f"an integer in an answer must be of at most {LARGEST} bits")
        return {"int": hex(answer)} if int.bit_length(answer) > 53 else int.__int__(answer)
    if isinstance(answer, float):
        return {"float": float.hex(answer)}
    if isinstance(answer, str):
        return str.__str__(answer)
    if isinstance(answer, bytes):
        return {"bytes": bytes.hex(answer)}
    if isinstance(answer, tuple):
        return [_plain(part) for part in tuple.__iter__(answer)]
    if isinstance(answer, frozenset):
        return {"set": sorted((_plain(part) for part in frozenset.__iter__(answer)), key=canonical_json)}
    kinds = "None, true or false, a number, text, bytes, a tuple or a frozenset of such"
    raise TypeError(f"an answer must be {kinds}, got {type(answer).__name__}")


def from_plain(value: Any) -> Hashable:
    """The answer that is so as JSON."""
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
"""What a shard answers on which the question fails, or that has no answer."""


def rehearse_question(question: Question, batches: Sequence[PublicBatch], encoding: Encoding, vault: Vault) -> None:
    """Ask some public rows, with labels of every class. Raises WrongInput where that fails: it would fail on every
    shard, and be paid for all the same."""
    rows = read_frame(batches[0].ref, vault).head(REHEARSED)
    labels = pl.Series(LABEL, np.arange(rows.height) % len(encoding.classes), pl.UInt16)
    try:
        with silenced(), _same_chance():
            canonical(question.function(_shown(rows.with_columns(labels), encoding)))
    except Exception as wrong:
        reason = f"{type(wrong).__name__}: {str(wrong).partition(chr(10))[0]}"
        raise WrongInput(f"question {question.name!r} cannot be asked, tried on public rows: {reason}") from None


@private_stage
def answers(question: Question, blocks: Sequence[tuple[range, Ref]], encoding: Encoding, vault: Vault) -> list[str]:
    """What every shard answers, in their order, as canonical texts; blocks are ranges of shards and their rows."""
    found: list[str] = []
    with silenced():
        for shards, block in blocks:
            rows = read_frame(block, vault)
            bounds = np.searchsorted(rows[SHARD].to_numpy(), [*shards, shards.stop])
            shown = _shown(rows.drop(SHARD), encoding)
            for first, last in pairwise(bounds.tolist()):
                found.append(_answer(question.function, own_copy(shown, first, last)))
    return found


def _answer(function: Asked, rows: pl.DataFrame) -> str:
    """The shard's answer. Whatever ends the question but the operator or a lack of memory, it is NO_ANSWER."""
    try:
        with _same_chance():
            return canonical(function(rows))
    except (MemoryError, KeyboardInterrupt):
        raise  # the machine's fault, or the operator's wish: it must not change a vote
    except BaseException:
        return NO_ANSWER


def own_copy(rows: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
    """Rows `first` … `last` − 1 in memory of their own, aligned as Arrow's is: where a shard's rows lie in its block is
    decided by how many rows the shards before have, and sums may be grouped by that."""
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest()).take(pa.array(np.arange(first, last)))
    own = pl.from_arrow(table.combine_chunks(), schema=rows.schema)
    assert isinstance(own, pl.DataFrame)
    return own


def _shown(rows: pl.DataFrame, encoding: Encoding) -> pl.DataFrame:
    """Cast rows as a question sees them: the label by its class's name, under its own."""
    names = pl.Series(encoding.label, encoding.classes, pl.String).gather(rows[LABEL])
    return rows.drop(LABEL).with_columns(names)


@contextmanager
def _same_chance() -> Iterator[None]:
    """The global generators from one fixed seed, put back afterwards: one that a question draws from would otherwise go
    on from where another shard's rows left it."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        random.seed(0)
        np.random.seed(0)
        pl.set_random_seed(0)
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
