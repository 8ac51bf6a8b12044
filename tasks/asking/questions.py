"""Questions: a user's function of one shard's rows, asked of shards one after another, each in a process of its own.

    question(rows) -> an answer       rows: a polars frame of the shard's units: the plan's columns by their names, cast
                                      by the same fixed rules as for teachers, and the label column as class names

`answers` defines the answers allowed. A question is public, and so are the values it is made of.

In a single process, a question could carry data on to the next shard, by Python's state or by that of Polars, whose
categories belong to the whole process; and whatever its threads print, log or crash with would be visible.

Assumes      the question is public, and its answer follows from the rows it is given and from public values
Guarantees   every shard answers, in a process forked from one that has seen no rows: all start alike, with one core and
             the same random generators, and nothing is left of an earlier shard. A shard whose process fails, by an
             error, for lack of memory, by a signal or an exit, or gives no canonical text, answers None by a fixed
             rule. Its output, warnings and logs are discarded
Not covered  a question that never ends, ends other processes, or writes rows somewhere: it is code, and runs with your
             rights. Checked by tests/tasks/asking/test_ask_shards.py
"""

import dis
import hashlib
import inspect
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

import cloudpickle
import numpy as np
import polars as pl
import pyarrow as pa

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.artifacts.home.vault import Staged
from concord.artifacts.schemas import LABEL, Encoding, PublicBatch, canonical_json
from concord.tasks.asking.answers import LONGEST, NO_ANSWER, PASSED, canonical, fault_of, from_plain, reason_of
from concord.tasks.data.encode import read_frame
from concord.tasks.units.teachers import as_asked

VALID_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,100}")
"""Names allowed for a question: one line, without half of a surrogate pair, which cannot be encoded."""
REHEARSED = 256
"""The most public rows on which a question is run first."""
SCRIPT = Path(__file__).with_name("answers.py")
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
}
"""Environment of every shard's process: one thread, so that sums have one order, and fixed hashes."""

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
        label = str(getattr(function, "__name__", "<")) if name is None else name
        if name is None and label.startswith("<"):
            raise WrongInput("a question that is no named function needs a name: it is known by it, and paid for once")
        return cls(label, function)

    @property
    def code(self) -> str:
        """SHA-256 of its source text and of the values it closes over; empty if one is not known."""
        try:
            text = textwrap.dedent(inspect.getsource(self.function))
            taken = captured(self.function)
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
                pickled: bytes = cloudpickle.dumps(self.function)
                return pickled
        except Exception as wrong:
            reason = reason_of(wrong)
        raise WrongInput(
            f"question {self.name!r} cannot be sent to the process of a shard, by cloudpickle: {reason}; it must not "
            "refer to open files, locks or connections"
        )


def captured(function: ShardFunction) -> dict[str, dict[str, str]]:
    """The canonical values of a function's closure and globals, and of its defaults; modules by their names.

    Raises ValueError or TypeError if one has no canonical form.
    """
    around, parameters = inspect.getclosurevars(function), inspect.signature(function).parameters
    defaults = {name: given.default for name, given in parameters.items() if given.default is not given.empty}
    used = {step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"}
    others = {name: value for name, value in around.globals.items() if name in used}  # others are names of attributes
    values = {"closure": around.nonlocals, "globals": others, "defaults": defaults}
    return {
        kind: {
            name: f"module {value.__name__}" if isinstance(value, ModuleType) else canonical(value)
            for name, value in by_name.items()
        }
        for kind, by_name in values.items()
    }


def rehearse_question(question: Question, batches: Sequence[PublicBatch], encoding: Encoding, public: Staged) -> None:
    """Ask the question of some public rows, with labels of every class, as shards are asked. Raises WrongInput if that
    fails: it would fail on every shard and still be paid for."""
    rows, probe = (
        read_frame(batches[0].ref, public).head(REHEARSED),
        cloudpickle.dumps(partial(fault_of, question.portable)),
    )
    labels = pl.Series(LABEL, np.arange(rows.height) % len(encoding.classes), pl.UInt16)
    with forking_helper() as helper:
        outcome = answer_of(helper, probe, as_asked(rows.with_columns(labels), encoding))
    if outcome != PASSED:
        reason = json.loads(outcome) or "it ends its process"
        raise WrongInput(f"question {question.name!r} cannot be asked: on public rows, {reason}")


@contextmanager
def forking_helper() -> Iterator[socket.socket]:
    """Context with the socket of the process that forks one for each shard; that process ends with the context."""
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            helper = subprocess.Popen(
                [sys.executable, "-P", str(SCRIPT), str(os.getpid())],
                env={**os.environ, "PYTHONPATH": path, **ENVIRONMENT},
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            yield ours
        finally:
            with suppress(ProcessLookupError):
                os.killpg(helper.pid, signal.SIGKILL)
            helper.wait()


def answer_of(helper: socket.socket, question: bytes, rows: pl.DataFrame) -> str:
    """The canonical text of one shard's answer; NO_ANSWER if it wrote no whole one. Raises EnvironmentFailed if the
    helper process is gone."""
    (given, give), (pipe, say) = os.pipe(), os.pipe()
    with open(pipe, "rb", buffering=0) as answer:
        with suppress(BrokenPipeError), open(give, "wb") as sink:  # broken: its process has ended before it was asked
            try:
                socket.send_fds(helper, [b"."], [given, say])
            finally:
                os.close(given)
                os.close(say)
            pickle.dump((question, as_bytes(rows)), sink)
        if helper.recv(1) != b".":
            raise EnvironmentFailed("the process that asks shards has ended")
        os.set_blocking(pipe, False)
        written = answer.read(LONGEST + 2) or b""
    try:
        text = written.decode().removesuffix("\n")
        return text if written.endswith(b"\n") and canonical(from_plain(json.loads(text))) == text else NO_ANSWER
    except Exception:  # the content of a shard must not decide how the command ends
        return NO_ANSWER


def as_bytes(rows: pl.DataFrame) -> bytes:
    """Rows as an Arrow IPC stream."""
    table, sink = rows.to_arrow(compat_level=pl.CompatLevel.oldest()), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content
