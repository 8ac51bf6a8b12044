"""Answers that a shard may give to a question, their canonical text, and the process in which a shard answers.

A shard answers None, true or false, an integer, a float, text, bytes, or a tuple or frozenset of these. Answers are
compared by their canonical text: 1, 1.0 and True differ, and so do 0.0 and −0.0; all NaNs are equal, and sets have no
order. Python's equality and hashes are not used, since they differ between types and processes. Every text can be
written to a certificate and read back. Checked by tests/tasks/asking/test_answers.py

Run as a script, it asks each shard in a process of its own, all of which start in the same state:

    python -P answers.py PARENT

The socket on its standard input passes two pipes per shard, by their descriptors: one holds the question and the
shard's rows, the other takes the canonical answer and a newline. The script forks for each shard, waits until that
process has ended for whatever reason, and then sends one byte. The script itself never reads rows nor uses Polars, so
the starting state of each shard's process is the same to the bit. Started and read by tasks/asking/questions.py.

Random generators are seeded because a question may use them. No noise and no secret is drawn here: the door makes a
mechanism's draws, from the session's key.
"""

import ctypes
import os
import pickle
import random
import resource
import signal
import socket
import sys
from collections.abc import Hashable
from typing import Any

import cloudpickle
import numpy as np
import polars as pl
import pyarrow as pa

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


PR_SET_PDEATHSIG = 1
"""Option of <linux/prctl.h> that sets the signal a process gets when the thread that started it ends."""


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, or end now if it has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def own_copy(table: pa.Table) -> pa.Table:
    """A copy in its own memory, aligned as Arrow aligns: the grouping of sums may depend on the address."""
    return table.take(pa.array(np.arange(table.num_rows))).combine_chunks()


def frame(rows: bytes) -> pl.DataFrame:
    """A shard's rows."""
    rows_read = pl.from_arrow(own_copy(pa.ipc.open_stream(rows).read_all()))
    assert isinstance(rows_read, pl.DataFrame)
    return rows_read


def answer(rows: int, to: int, helper: int) -> None:
    """In a shard's process: answer, and exit. A process that ends earlier has not answered."""
    try:
        end_with(helper)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        with open(rows, "rb") as given:
            question, table = pickle.load(given)
        function = cloudpickle.loads(question)
        random.seed(0)  # here, because a fork seeds it anew
        np.random.seed(0)
        pl.set_random_seed(0)
        os.write(to, f"{canonical(function(frame(table)))}\n".encode())
    finally:
        os._exit(0)


def main(parent: str) -> None:
    end_with(int(parent))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash would leave rows in a file
    own_copy(pa.table({"row": [0]}))  # imports more of Arrow, once for all shards
    np.random.seed(0)
    door, helper = socket.socket(fileno=0), os.getpid()
    while pipes := socket.recv_fds(door, 1, 2)[1]:
        child = os.fork()
        if child == 0:
            answer(pipes[0], pipes[1], helper)
        for pipe in pipes:
            os.close(pipe)
        os.waitpid(child, 0)
        door.sendall(b".")


if __name__ == "__main__":
    main(*sys.argv[1:])
