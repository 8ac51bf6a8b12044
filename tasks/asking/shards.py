"""Ask shards a question one after another, each in a process of its own.

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

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import Encoding, Ref
from concord.tasks.asking.answers import LONGEST, NO_ANSWER, canonical, from_plain
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import SHARD, read_frame
from concord.tasks.data.guard import private_stage

SCRIPT = Path(__file__).with_name("alone.py")
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
}
"""Environment of every shard's process: one thread, so that sums have one order, and fixed hashes."""


@private_stage
def answers(question: bytes, blocks: Sequence[tuple[range, Ref]], encoding: Encoding, vault: Vault) -> list[str]:
    """The answers of all shards, in order, as canonical texts; blocks are pairs (range of shards, their rows)."""
    found: list[str] = []
    with forking_helper() as helper:
        for shards, block in blocks:
            rows = read_frame(block, vault)
            bounds = np.searchsorted(rows[SHARD].to_numpy(), [*shards, shards.stop])
            own = as_asked(rows.drop(SHARD), encoding)
            found.extend(
                answer_of(helper, question, own.slice(first, last - first)) for first, last in pairwise(bounds.tolist())
            )
    return found


def as_asked(rows: pl.DataFrame, encoding: Encoding) -> pl.DataFrame:
    """Cast rows as a question sees them: the label column under its own name, with names of classes."""
    names = pl.Series(encoding.label, encoding.classes, pl.String).gather(rows[LABEL])
    return rows.drop(LABEL).with_columns(names)


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
    """The canonical text of one shard's answer. Raises EnvironmentFailed if the helper process is gone."""
    (given, give), (heard, say) = os.pipe(), os.pipe()
    with open(heard, "rb", buffering=0) as answer:
        with suppress(BrokenPipeError), open(give, "wb") as sink:  # broken: its process has ended before it was asked
            try:
                socket.send_fds(helper, [b"."], [given, say])
            finally:
                os.close(given)
                os.close(say)
            pickle.dump((question, as_bytes(rows)), sink)
        if helper.recv(1) != b".":
            raise EnvironmentFailed("the process that asks shards has ended")
        os.set_blocking(heard, False)
        return _text(answer.read(LONGEST + 2) or b"")


def as_bytes(rows: pl.DataFrame) -> bytes:
    """Rows as an Arrow IPC stream."""
    table, sink = rows.to_arrow(compat_level=pl.CompatLevel.oldest()), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _text(written: bytes) -> str:
    """The answer written by a shard's process if it is a whole canonical text, otherwise NO_ANSWER: the content of a
    shard must not decide how the command ends."""
    try:
        text = written.decode().removesuffix("\n")
        return text if written.endswith(b"\n") and canonical(from_plain(json.loads(text))) == text else NO_ANSWER
    except Exception:
        return NO_ANSWER
