"""Last: what MLflow answered of a session when it was last asked, for as long as nothing has changed that it looks at.

MLflow takes more than a second to load and to open its store, which a run that is cached would wait for to be told the
same again. So the answer is kept in the home, under a keyed digest of the question and of all that the answer follows
from. One that no longer holds is not found, and MLflow is asked.

Assumes      SQLite counts in the header of a database what was committed to it (its file format, §1.3.7), or the file's
             time changes
Guarantees   an answer that is given back was MLflow's own, to the very same question; since then its database, the
             names of the files beside it, its version and the home's place are the same. No answer is kept that
             changed while it was given, and none is believed that this vault did not seal
Not covered  what files of MLflow hold, which verification reads; a store that is not the home's own, whose owner may
             change it at any time: it is asked each time. Checked by tests/artifacts/mlflow/test_last.py
"""

import hmac
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.home.whole import make_folder, write_whole
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.settings import JOURNALS, own_store, own_store_file

HEADER = 100
"""Bytes at the beginning of a SQLite database that say how it is written, and count what was committed to it."""


@dataclass(frozen=True)
class LastAnswer:
    """Where MLflow showed a session; `question` is all that it was asked, as JSON has it."""

    home: Path
    vault: Vault
    session: str
    question: Mapping[str, Any]

    def still_true(self) -> Tracked | None:
        """What MLflow would answer; None if nobody knows before it is asked."""
        try:
            kept = json.loads(self._file.read_bytes())
            seal, tracked = str(kept.pop("seal")).encode(), Tracked(**kept)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # not there, or not ours
            return None
        trace = self._trace()
        return tracked if trace and hmac.compare_digest(seal, self._seal(tracked, trace).encode()) else None

    def keep(self, ask: Callable[[], Tracked | None]) -> None:
        """Ask MLflow, and keep the answer if nothing changed meanwhile."""
        before = self._trace()
        tracked = ask() if before else None  # a store of others is not asked for what is not kept
        if before is None or tracked is None or before != self._trace():
            return
        with suppress(OSError):  # a home that takes no file is asked again
            make_folder(self._file.parent)
            with write_whole(self._file, self.home) as file:
                file.write(json.dumps(asdict(tracked) | {"seal": self._seal(tracked, before)}).encode())

    @property
    def _file(self) -> Path:
        return self.home / "results" / f"shown-{self.session}"

    def _seal(self, tracked: Tracked, trace: str) -> str:
        asked = json.dumps([self.session, self.question, asdict(tracked)], sort_keys=True)
        return keyed_digest(derive(self.vault.secret("installation"), "last answers"), asked, trace)

    def _trace(self) -> str | None:
        """All that the answer follows from besides the question; None if that may be changing, or is not here."""
        database = own_store_file(self.home)
        if not own_store(self.home) or any(database.with_name(f"{database.name}{end}").exists() for end in JOURNALS):
            return None
        try:
            with database.open("rb") as file:
                about, header = os.fstat(file.fileno()), file.read(HEADER)
        except OSError:
            return None
        root = database.parent / "mlartifacts"
        names = sorted(os.path.join(folder, name) for folder, _, files in os.walk(root) for name in files)
        found = [about.st_ino, about.st_size, about.st_mtime_ns, header.hex(), names, str(database), version("mlflow")]
        return json.dumps(found)
