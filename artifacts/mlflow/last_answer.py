"""A cache of MLflow's last answer about a session, valid as long as nothing that the answer depends on has changed.

MLflow takes more than a second to load and to open its store, which a cached run would spend on an answer it already
has. So the answer is kept in the home, under a keyed digest of the question and of everything that the answer depends
on. An answer that no longer holds is not found, and MLflow is asked.

Assumes      a commit to a SQLite database changes the counter in its header (its file format, §1.3.7), or the file's
             time
Guarantees   a cached answer was MLflow's own, to the very same question; since then its database, the names of its
             artifact files, its version and the home's place are the same. An answer is not kept if these changed while
             it was given, and not believed unless this vault sealed it
Not covered  the content of MLflow's files, which verification reads; a store that is not the home's own, which may
             change at any time and is asked each time. Checked by tests/artifacts/mlflow/test_last_answer.py
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

from concord.artifacts.home.atomic import make_folder, write_whole
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.settings import JOURNALS, own_store, own_store_file

HEADER = 100
"""Bytes of a SQLite database's header, in which commits are counted."""


@dataclass(frozen=True)
class LastAnswer:
    """A cached answer: the place of a session in MLflow. `question` is the whole question, as JSON."""

    home: Path
    vault: Vault
    session: str
    question: Mapping[str, Any]

    def still_true(self) -> Tracked | None:
        """MLflow's answer, if it is cached and still valid; otherwise None."""
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
        tracked = ask() if before else None  # answers of another's store are not cached, so it is not asked here
        if before is None or tracked is None or before != self._trace():
            return
        with suppress(OSError):  # a home that cannot be written has no cache
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
        """Everything that the answer depends on besides the question; None if it may be changing or is not local."""
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
