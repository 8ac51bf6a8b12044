"""Secrets by which a domain, or a stream, knows its units: made once, and committed to in the ledger.

A domain's secret decides each unit's shard and part, and by it the ledger's digests of erased units are found again. A
stream's secret identifies the units that its seasons have asked. Under another secret an erased unit would come back,
and everybody would be asked again within one charge.

Assumes      a private row is read only after `ready_secret`, and for a stream after `ready_stream`
Guarantees   such a secret is made only while nothing depends on it: what the vault holds of that domain or stream by
             then is removed, and made again. Afterwards it is the one on record, or nothing is read
Ends         of a stream, when its last season is forgotten
Not covered  who copies it. Checked by tests/promises/test_lost_secrets.py
"""

from pathlib import Path
from typing import Final

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.atomic import UNFINISHED, locked
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.stores import Stores

KEPT: Final = frozenset({"secrets", "sessions", "public", "locks", UNFINISHED})
"""Folders of the vault that `erase` keeps: they hold nothing made of a private row except what `forget` destroys. Of
unfinished files, only those that were to become removed files are removed."""


def folders_of_rows(vault: Vault) -> list[Path]:
    """The vault's folders besides KEPT, sorted: what may be made of private rows, one folder a kind."""
    return sorted(path for path in vault.root.iterdir() if path.name not in KEPT)


def ready_secret(stores: Stores, domain: str) -> None:
    """Have the domain's secret in the vault, made if the domain is new, and on record once the domain is.

    Raises NotVerified if it is missing though records depend on it, or if another is on record.
    """
    name, vault = _of_domain(domain), stores.vault
    if is_lost(stores, domain):
        raise NotVerified(
            f"the vault lacks {vault.root}/secrets/{name}, by which domain {domain!r} knows who was erased or set "
            "aside: restore a copy of it; if there is none, name another domain in the plan, and remove the "
            "erased units from its table"
        )
    if not vault.has_secret(name):
        made = (kind.name for kind in folders_of_rows(vault) if kind.name != "tables")  # these are copies, by no secret
        _make(stores, name, [f"{kind}/{domain}" for kind in made])
    record_secret(stores, domain)


def record_secret(stores: Stores, domain: str) -> None:
    """Commit the ledger to the domain's secret, once the domain is named."""
    if stores.ledger.domain(domain) is not None and stores.vault.has_secret(_of_domain(domain)):
        _commit(stores, domain, _of_domain(domain))


def is_lost(stores: Stores, domain: str) -> bool:
    """Whether the vault lacks the domain's secret though private files were read, or units erased or set aside."""
    depends = any(remark.kind in ("holds", "erased", "secret") for remark in stores.ledger.remarks(domain))
    depends = depends or stores.ledger.division(domain) is not None
    return depends and not stores.vault.has_secret(_of_domain(domain))


def ready_stream(stores: Stores, domain: str, stream: str, *, drawn_from: bool) -> None:
    """Have the secret of a stream in the vault and on record, made before its first period is counted.

    drawn_from   whether a period of the stream was counted
    Raises NotVerified if it is missing though periods depend on it, or if another is on record.
    """
    name, vault = f"streams/{stream}", stores.vault
    if not vault.has_secret(name):
        recorded = [remark.about for remark in stores.ledger.remarks(domain) if remark.kind == "secret"]
        if drawn_from or any(about.startswith(f"{name} ") for about in recorded):
            raise NotVerified(
                f"the vault lacks {vault.root}/secrets/{name}, by which the stream knows whom it asked: restore a "
                "copy of it, or end the season by `concord close --whole SESSION`; `concord refresh PLAN "
                "--new-session` then asks everybody again, which costs again"
            )
        _make(stores, name, [f"arrived/{domain}/{stream}"])
    _commit(stores, domain, name)


def _of_domain(domain: str) -> str:
    return f"domains/{domain}"


def _make(stores: Stores, name: str, made: list[str]) -> None:
    """Make a secret, after removing what was made by one that is gone."""
    with locked(stores.vault.root / "locks" / f".{name.replace('/', '-')}"):  # no domain has such a name
        for path in () if stores.vault.has_secret(name) else made:
            stores.vault.destroy(path)
        stores.vault.make_secret(name)


def _commit(stores: Stores, domain: str, name: str) -> None:
    digest = keyed_digest(derive(stores.vault.secret(name), "commitment"), name)
    stores.ledger.remark(domain, "secret", f"{name} {digest}")
