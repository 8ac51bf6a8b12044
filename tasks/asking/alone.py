"""Ask each shard in a process of its own, all of which start in the same state. Run as a script:

    python -P alone.py PARENT

The socket on its standard input passes two pipes per shard, by their descriptors: one holds the question and the
shard's rows, the other takes the canonical answer and a newline. The script forks for each shard, waits until that
process has ended for whatever reason, and then sends one byte. The script itself never reads rows nor uses Polars, so
the starting state of each shard's process is the same to the bit. Started and read by tasks/asking/shards.py.

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

import cloudpickle
import numpy as np
import polars as pl
import pyarrow as pa

from concord.tasks.asking.answers import canonical

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
    found = pl.from_arrow(own_copy(pa.ipc.open_stream(rows).read_all()))
    assert isinstance(found, pl.DataFrame)
    return found


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
