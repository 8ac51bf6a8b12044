"""Questions: a user's function of one shard's rows, and the canonical text of what each shard answers.

    question(rows) -> an answer       rows: a polars frame of the shard's units: the plan's columns by their names, cast
                                      by the same fixed rules as for teachers, and the label column as class names

`answers` defines the answers allowed, and `shards` asks the shards. A question is public, and so are the values it is
made of. Checked by tests/tasks/asking/test_ask_shards.py
"""

import dis
import hashlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import FunctionType, ModuleType

import cloudpickle
import numpy as np
import polars as pl

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import Encoding, canonical_json
from concord.tasks.asking.answers import PASSED, canonical, fault_of, reason_of
from concord.tasks.asking.shards import answer_of, as_asked, forking_helper
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import PublicBatch, read_frame

VALID_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,100}")
"""Names allowed for a question: one line, without half of a surrogate pair, which cannot be encoded."""
REHEARSED = 256
"""Most public rows that a question is tried on."""

ShardFunction = Callable[[pl.DataFrame], Hashable]


@dataclass(frozen=True)
class Question:
    """A question to every shard: the operator's name for it, and the function that answers it.

    A session identifies a question by its name: if it is asked again under that name, the answer is replayed. So other
    code needs another name; `code`, a digest of the source text if that is known, shows if the name was not changed.
    """

    name: str
    function: ShardFunction

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise WrongInput(f"a question must be a function of a shard's rows, got {type(self.function).__name__}")
        if not VALID_NAME.fullmatch(self.name) or self.name != self.name.strip():
            raise WrongInput(f"a question's name must be one line of 1 to 100 characters, got {self.name!r}")

    @classmethod
    def of(cls, function: ShardFunction, name: str | None) -> "Question":
        """The question under the given name, or that of its function. Raises WrongInput if it has neither."""
        known = str(getattr(function, "__name__", "<")) if name is None else name
        if name is None and known.startswith("<"):
            raise WrongInput("a question that is no named function needs a name: it is known by it, and paid for once")
        return cls(known, function)

    @property
    def code(self) -> str:
        """SHA-256 of its source text and of the values it closes over; empty if one is not known."""
        try:
            text = textwrap.dedent(inspect.getsource(self.function))
            taken = _taken(self.function)
        except (OSError, TypeError, ValueError, RecursionError):
            return ""
        return hashlib.sha256(canonical_json([text, taken]).encode()).hexdigest()

    @property
    def portable(self) -> bytes:
        """The question pickled for another process, its module by value. Raises WrongInput if it cannot be pickled."""
        module = sys.modules.get(self.function.__module__) if isinstance(self.function, FunctionType) else None
        try:
            with ExitStack() as registered:
                if module is not None and module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.register_pickle_by_value(module)
                    registered.callback(cloudpickle.unregister_pickle_by_value, module)
                found: bytes = cloudpickle.dumps(self.function)
                return found
        except Exception as wrong:
            reason = reason_of(wrong)
        raise WrongInput(
            f"question {self.name!r} cannot be sent to the process of a shard, by cloudpickle: {reason}; it must not "
            "refer to open files, locks or connections"
        )


def _taken(function: ShardFunction) -> dict[str, dict[str, str]]:
    """The canonical values of a function's closure and globals, and of its defaults; modules by their names.

    Raises ValueError or TypeError if one has no canonical form.
    """
    around = inspect.getclosurevars(function)
    defaults = {
        name: given.default
        for name, given in inspect.signature(function).parameters.items()
        if given.default is not given.empty
    }
    used = {step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"}
    others = {name: value for name, value in around.globals.items() if name in used}  # others are names of attributes
    kinds = {"closure": around.nonlocals, "globals": others, "defaults": defaults}
    return {kind: {name: _value(value) for name, value in found.items()} for kind, found in kinds.items()}


def _value(value: object) -> str:
    return f"module {value.__name__}" if isinstance(value, ModuleType) else canonical(value)


def rehearse_question(question: Question, batches: Sequence[PublicBatch], encoding: Encoding, vault: Vault) -> None:
    """Ask the question of some public rows, with labels of every class, as shards are asked. Raises WrongInput if that
    fails: it would fail on every shard and still be paid for."""
    rows, trial = (
        read_frame(batches[0].ref, vault).head(REHEARSED),
        cloudpickle.dumps(partial(fault_of, question.portable)),
    )
    labels = pl.Series(LABEL, np.arange(rows.height) % len(encoding.classes), pl.UInt16)
    with forking_helper() as helper:
        outcome = answer_of(helper, trial, as_asked(rows.with_columns(labels), encoding))
    if outcome != PASSED:
        reason = json.loads(outcome) or "it ends its process"
        raise WrongInput(f"question {question.name!r} cannot be asked, tried on public rows: {reason}")
