"""The cached result of a stage: its key, and the sealed file that holds it.

    results/KEY = seal ‖ record      the seal: HMAC-SHA256 of KEY and the record, under a key derived for results alone

The file is in the home, or in the object store that CONCORD_RESULTS names, which is trusted no more than a disk.

KEY is a keyed digest of the stage's name, its version, the type it returns and every argument it is given. The record
is Prefect's own: small references and released figures, which decide what is read next. It names its serializer, which
could be one that runs code; so nothing but JSON is ever sealed, and nothing without a seal is parsed.

Assumes      the vault's key is secret; a stage computes from its arguments and the home's secrets alone, and its
             version changes with its code
Guarantees   a key digests each argument whole. A value of a type that cannot be digested is refused; so is reading a
             field of a plan that is not in the stage's view of it (`only`), since no key covers it.
             A result that is read was written here for exactly that key: an edited file, one under another's name and
             one from elsewhere count as missing, so the stage runs again. An older result put back under its own name
             answers the same question from the same inputs
Not covered  the place of files: a table, a home or a file of the vault that moved is the same one, since a `Table`
             and a `Ref` are known by their digests alone. Files that a result refers to: they are checked when read.
             Results whose key another version made differently count as missing, which spends nothing.
             Checked by tests/flows/test_cache.py and tests/flows/test_sealed.py
"""

import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect.filesystems import WritableFileSystem
from prefect.serializers import JSONSerializer
from pydantic import BaseModel, Field, PrivateAttr

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.atomic import make_folder, write_whole
from concord.artifacts.home.vault import SEAL_BYTES, Vault, derive, keyed_digest
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.settings import Settings
from concord.artifacts.stores import PrivatePlace
from concord.tasks.data.codes import Codes
from concord.tasks.data.places import Remote
from concord.tasks.data.tables import Table
from concord.tasks.units.units import PrivateRows

Model = TypeVar("Model", bound=BaseModel)
JSON = JSONSerializer().model_dump(mode="json")
KEY = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class PrivateInput:
    """The private rows that a stage reads, as its key digests them.

    erased  keyed digests of the units whose rows are left out
    """

    table: Table
    encoding: Encoding
    erased: tuple[str, ...]

    def at(self, place: PrivatePlace, plan: Plan) -> PrivateRows:
        """These rows, opened in the vault of that place."""
        return PrivateRows.of(self.table.named_in(plan), self.encoding, place.vault, self.erased)


def only(part: Model, *names: str) -> Model:
    """A view of a plan or section with just the named fields ("data.label"); reading another raises AttributeError."""
    inner: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.partition(".")
        inner.setdefault(first, []).extend([rest] if rest else [])
    view = type(part).model_construct()
    seen = {name: only(getattr(part, name), *rest) if rest else getattr(part, name) for name, rest in inner.items()}
    view.__dict__.clear()
    view.__dict__.update(seen)
    return view


def digested(value: Any) -> Any:
    """A value as JSON, different for different values. Raises TypeError for an unknown type."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Table):
        if len(value.digests) < len(value.files):
            raise TypeError(f"the table of {value.field} must be digested before a stage takes it")
        return list(value.digests)
    if isinstance(value, Ref | Codes):  # pairs of 64 columns hold millions of numbers
        return value.digest
    if isinstance(value, BaseModel):
        return {name: digested(field) for name, field in value}
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {field.name: digested(getattr(value, field.name)) for field in fields(value)}]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: digested(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [digested(item) for item in value]
    raise TypeError(f"a stage's argument must be of a type that its key can digest, got {type(value).__name__}")


def key_of(home: Path, name: str, version: str, arguments: Mapping[str, Any]) -> str:
    """The key of a stage's result for those arguments."""
    vault = Vault(home / "vault")
    return f"{name}-{vault.digest(name, version, json.dumps(digested(arguments), sort_keys=True))}"


def refs_of(result: Any) -> list[Ref]:
    """All references inside a stage's result."""
    if isinstance(result, BaseModel):
        result = result.model_dump()
    if isinstance(result, Mapping):
        if set(result) == {"path", "digest"}:
            return [Ref(**result)]
        result = list(result.values())
    return [ref for item in result for ref in refs_of(item)] if isinstance(result, list | tuple) else []


class SealedResults(WritableFileSystem):
    """Prefect's result storage for one home folder. It carries no key: its user opens the vault.

    address   the address of a folder in an object store; without it, results are in HOME/results
    """

    home: Path
    address: str | None = Field(default_factory=lambda: Settings.now().results)
    _block_type_name = "Concord sealed results"
    # Prefect refuses blocks its server does not know. No server knows this id, so none can redirect results.
    _block_document_id: UUID | None = PrivateAttr(uuid5(NAMESPACE_URL, "concord/sealed results"))

    def read_path(self, path: str, **_: Any) -> bytes:  # type: ignore[override]  # Prefect calls either kind
        """The record of a key. Raises NotVerified if there is none that this vault sealed."""
        sealed = self._place(path).read_bytes()
        seal, record = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(path, record)):
            raise NotVerified(f"the result {path} is not what was written")
        return record

    def write_path(self, path: str, content: bytes, **_: Any) -> None:  # type: ignore[override]  # as above
        """Seal the record of a key, replacing any earlier one. Raises TypeError if it is not JSON."""
        if json.loads(content)["metadata"]["serializer"] != JSON:
            raise TypeError(f"the result {path} must be serialized as JSON")
        place, sealed = self._place(path), self._seal(path, content) + content
        if isinstance(place, Remote):
            place.write_bytes(sealed)
            return
        make_folder(place.parent)
        with write_whole(place, self.home) as file:
            file.write(sealed)

    def discard(self, key: str) -> None:
        """Remove the result for a key, if it is in the home."""
        place = self._place(key)
        if isinstance(place, Path):
            place.unlink(missing_ok=True)

    def is_foreign(self, key: str) -> bool:
        """Whether there is a result for that key that is not what was written."""
        try:
            self.read_path(key)
        except FileNotFoundError:
            return False
        except (OSError, NotVerified):
            return True
        return False

    def _place(self, key: str) -> Path | Remote:
        if not KEY.fullmatch(key):
            raise NotVerified(f"the result {key} must be named by a cache key")
        return Remote(f"{self.address.rstrip('/')}/{key}") if self.address else self.home / "results" / key

    def _seal(self, key: str, record: bytes) -> bytes:
        secret = derive(Vault(self.home / "vault").secret("installation"), "results")
        return bytes.fromhex(keyed_digest(secret, "result", key, record))
