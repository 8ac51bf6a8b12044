"""Keys outside the vault: in a file of their owner's, or in a hardware token that never gives them out.

A PKCS#11 address (RFC 7512) names a token. The token's library signs; python-pkcs11 loads it (the extra `pkcs11`):

    pkcs11:token=LABEL;object=LABEL?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/concord/pin

The address may also name the token's `serial` and the key's `id`. The PIN lies in a file, never in the address.

Assumes      the library that the address names is the token's: its code runs in this process
Guarantees   each signature is made in a session of its own and verified with the public half before it is used. No
             error shows the PIN
Not covered  a process forked from one that had used a token: most libraries refuse it
             Checked by tests/artifacts/home/test_token.py, with SoftHSM 2
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, unquote_to_bytes

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.home.users import read_own
from concord.artifacts.settings import SIGNING_KEY

PKCS11 = "pkcs11:"
OCTETS = b"\x04\x20"
"""The DER header of an octet string of 32 bytes, in which most tokens wrap a point."""
ATTRIBUTES = {"token", "serial", "object", "id", "module-path", "pin-source"}


class TokenKey:
    """An Ed25519 key in a token."""

    def __init__(self, terms: dict[str, str], public: Ed25519PublicKey) -> None:
        self._terms, self._public = terms, public

    @classmethod
    def of(cls, address: str) -> Self:
        """The key that an address names. Raises EnvironmentFailed if there is no such key or it cannot be used."""
        terms = _terms(address)
        with _session(terms) as (session, pkcs11):
            key = session.get_key(object_class=pkcs11.ObjectClass.PUBLIC_KEY, **_named(terms, pkcs11))
            point = bytes(key[pkcs11.Attribute.EC_POINT])
        raw = point.removeprefix(OCTETS) if len(point) == 34 else point
        if len(raw) != 32:
            raise EnvironmentFailed(f"{SIGNING_KEY} must name an Ed25519 key, and that in the token is of another kind")
        return cls(terms, Ed25519PublicKey.from_public_bytes(raw))

    def public_key(self) -> Ed25519PublicKey:
        """The public half of the key."""
        return self._public

    def sign(self, data: bytes, /) -> bytes:
        """The signature of `data`, 64 bytes. Raises EnvironmentFailed if the token returns no valid signature."""
        with _session(self._terms) as (session, pkcs11):
            key = session.get_key(object_class=pkcs11.ObjectClass.PRIVATE_KEY, **_named(self._terms, pkcs11))
            signature = bytes(key.sign(data, mechanism=pkcs11.Mechanism.EDDSA))
        try:
            self._public.verify(signature, data)
        except InvalidSignature:
            raise EnvironmentFailed("the token signed by another key than the public one beside it") from None
        return signature


def names_token(address: str) -> bool:
    """Whether `address` names a key in a token rather than a file."""
    return address[: len(PKCS11)].lower() == PKCS11


def _terms(address: str) -> dict[str, str]:
    path, _, query = address[len(PKCS11) :].partition("?")
    parts = [part.partition("=") for part in (*path.split(";"), *query.split("&")) if part]
    terms = {name: value for name, _, value in parts}
    lacking = [name for name in ("token", "object", "module-path", "pin-source") if not terms.get(name)]
    if lacking or not terms.keys() <= ATTRIBUTES or len(terms) < len(parts):
        raise EnvironmentFailed(
            f"{SIGNING_KEY} must name a key as pkcs11:token=LABEL;object=LABEL?module-path=FILE&pin-source=FILE"
            + (f", and lacks {lacking[0]}" if lacking else ": it has another part, or one twice")
        )
    return terms


def _named(terms: dict[str, str], pkcs11: Any) -> dict[str, Any]:
    name: dict[str, Any] = {"label": unquote(terms["object"]), "key_type": pkcs11.KeyType.EC_EDWARDS}
    return name | ({"id": unquote_to_bytes(terms["id"])} if "id" in terms else {})


@contextmanager
def _session(terms: dict[str, str]) -> Iterator[tuple[Any, Any]]:
    try:
        import pkcs11
    except ModuleNotFoundError:
        raise EnvironmentFailed(
            f"{SIGNING_KEY} names a token, which needs python-pkcs11: pip install 'concord[pkcs11]'"
        ) from None
    module = unquote(terms["module-path"])
    if not Path(module).is_file():
        raise EnvironmentFailed(f"{SIGNING_KEY} names the token library {module}, which is not there")
    source = unquote(terms["pin-source"]).removeprefix("file:").removeprefix("//")
    pin = read_own(Path(source), SIGNING_KEY, "the file of the PIN").decode(errors="replace").strip()
    which: dict[str, Any] = {"token_label": unquote(terms["token"])}
    which |= {"token_serial": unquote(terms["serial"]).encode()} if "serial" in terms else {}
    try:
        with pkcs11.lib(module).get_token(**which).open(user_pin=pin) as session:
            yield session, pkcs11
    except (pkcs11.PKCS11Error, RuntimeError) as failed:
        why = f"{type(failed).__name__}{f': {failed}' if isinstance(failed, RuntimeError) else ''}"
        raise EnvironmentFailed(
            f"the token {which['token_label']!r} that {SIGNING_KEY} names gave no use of the key "
            f"{unquote(terms['object'])!r} ({why})"
        ) from None
