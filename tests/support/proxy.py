"""A loopback port that forwards to a PostgreSQL server's socket, and breaks the connection at one commit."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Literal

from tests.support.ports import own_port

How = Literal["commit lost", "acknowledgement lost", "server dies", "server dies, acknowledgement lost"]


@dataclass
class Proxy:
    """Counts in `commits` the commits that clients send; at number `at` fails as `how` says, and the client is told
    nothing.

    place   the server's socket
    die     ends the server
    """

    place: Path
    die: Callable[[], None]
    port: int = field(default_factory=own_port)
    commits: int = 0
    at: int | None = None
    how: How = "commit lost"

    @contextmanager
    def listening(self) -> Iterator["Proxy"]:
        """Forward connections while the block lasts."""
        with socket.create_server(("127.0.0.1", self.port)) as entry:
            taking = threading.Thread(target=self._take, args=(entry,))
            taking.start()
            yield self
            entry.shutdown(socket.SHUT_RDWR)
            taking.join()

    def _take(self, entry: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(entry.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(str(self.place))
            while True:
                for sender in select([client, server], [], [])[0]:
                    sent = sender.recv(1 << 16)
                    if not sent or (sender is client and b"COMMIT" in sent and self._fails(server, sent)):
                        return
                    (server if sender is client else client).sendall(sent)

    def _fails(self, server: socket.socket, commit: bytes) -> bool:
        """Count a commit. Whether it was the one to fail at; what is left of it is done then."""
        self.commits += 1
        if self.commits - 1 != self.at:
            return False
        if self.how != "commit lost":
            server.sendall(commit)
        if "acknowledgement" in self.how:
            assert server.recv(1 << 16)
        if "dies" in self.how:
            self.die()
        return True
