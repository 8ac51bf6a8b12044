"""Where the results of stages are kept for Prefect: sealed, and checked before anything in them is parsed.

    results/KEY = seal ‖ record      the seal: HMAC-SHA256 of KEY and the record, under a key derived for results alone

KEY is a stage's cache key, a keyed digest of all that its result depends on. A result decides: it names the files that
are read next, and holds figures that are published. The record is Prefect's own, and names its serializer, which could
be one that runs code; so nothing but JSON is ever sealed, and nothing without a seal is parsed.

Assumes      the vault's key is secret; a stage's key digests all that its result depends on
Guarantees   what is read back was written here, as the result of that very key: an edited file, a file put under
             another's name and one from elsewhere count as absent, so the stage runs again. An older result put back
             under its own name answers the same question from the same inputs
Not covered  what a result refers to: those files are checked as they are read. Results of 0.1.0 have no seal, and are
             made again. Checked by tests/flows/test_sealed.py
"""

import hmac
import json
import re
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect.filesystems import WritableFileSystem
from prefect.serializers import JSONSerializer
from pydantic import PrivateAttr

from artifacts.errors import NotVerified
from artifacts.vault import SEAL_BYTES, Vault, derive, keyed_digest
from artifacts.whole import make_folder, write_whole

JSON = JSONSerializer().model_dump(mode="json")
KEY = re.compile(r"[\w-]+")


class SealedResults(WritableFileSystem):
    """Prefect's result storage in one home folder. It carries no key: whoever uses it opens the vault."""

    home: Path
    _block_type_name = "Concord sealed results"
    # Prefect refuses blocks its server does not know. No server knows this id: what it says of results is not followed.
    _block_document_id: UUID | None = PrivateAttr(uuid5(NAMESPACE_URL, "concord/sealed results"))

    def read_path(self, path: str, **_: Any) -> bytes:  # type: ignore[override]  # Prefect calls either kind
        """The record of a key. Raises NotVerified where there is none that this vault sealed."""
        sealed = self._file(path).read_bytes()
        seal, record = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(path, record)):
            raise NotVerified(f"the result {path} is not what was written")
        return record

    def write_path(self, path: str, content: bytes, **_: Any) -> None:  # type: ignore[override]  # as above
        """Seal the record of a key, in the place of the one before. Raises TypeError where it is not JSON."""
        if json.loads(content)["metadata"]["serializer"] != JSON:
            raise TypeError(f"the result {path} must be serialized as JSON")
        make_folder(self.home / "results")
        with write_whole(self._file(path), self.home) as file:
            file.write(self._seal(path, content) + content)

    def is_foreign(self, key: str) -> bool:
        """Whether there is a result of that key, and it is not what was written."""
        try:
            self.read_path(key)
        except FileNotFoundError:
            return False
        except (OSError, NotVerified):
            return True
        return False

    def _file(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise NotVerified(f"the result {key} must be named by a cache key")
        return self.home / "results" / key

    def _seal(self, key: str, record: bytes) -> bytes:
        secret = derive(Vault(self.home / "vault").secret("installation"), "results")
        return bytes.fromhex(keyed_digest(secret, "result", key, record))
