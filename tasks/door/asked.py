"""Vault files of what was asked: folders of votes and sums; and of rows asked online, with noise if any was kept.

    sessions/ID/online/INDEX-DIGEST[-ROWS].arrow     rows, written before their batch is begun
    votes/DOMAIN/ENSEMBLE/online-DIGEST              votes, which can be counted again
    sessions/ID/answers-INDEX.npz                    answers made with noise, which cannot be made again

A damaged file of rows stops its session, since a process that does not know all rows that were asked could answer one
of them twice; it affects no other session and no released file. Checked by tests/flows/test_online_known.py
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home.vault import Vault, owner
from concord.artifacts.schemas import PublicBatch, Ref


def votes_folder(vault: Vault, teachers: Sequence[Ref]) -> str:
    """The folder of an ensemble's votes in the vault."""
    return f"votes/{owner(teachers[0])}/{vault.digest('votes of', *(block.path for block in teachers))[:16]}"


def sums_folder(block: Ref) -> str:
    """The folder of a block's sums in every round, shared with the blocks gathered with it."""
    _, domain, gathered, *_ = block.path.split("/")
    return f"sums/{domain}/{gathered}"


def online_path(session: str, index: int, digest: str, rows: int = 1) -> str:
    """The path of rows asked online in the vault; it names the batch they are to become, which keeps their order."""
    many = "" if rows == 1 else f"-{rows}"
    return f"sessions/{session}/online/{index:09d}-{digest[:32]}{many}.arrow"


def online_rows(
    vault: Vault, session: str, index: int | None = None, known: Collection[str] = ()
) -> Iterator[tuple[PublicBatch, bytes]]:
    """The rows a session was asked online, in their order, and each file's bytes, which are read once; or those that
    were to become its batch `index`. Those of `known` files are not read.

    Raises NotVerified or EnvironmentFailed, which say what that means, if a file is damaged or cannot be read.
    """
    pattern = "*.arrow" if index is None else f"{index:09d}-*.arrow"
    with saying(
        f"it holds rows that session {session} was asked, one of which could be answered twice without it: restore a "
        f"copy of it, or end the session by `concord close {session}`"
    ):
        for path in vault.paths(f"sessions/{session}/online", pattern, known):
            found = vault.take(path)
            if found is not None:
                yield PublicBatch(ref=found[0], first=0, rows=int([*Path(path).stem.split("-"), "1"][2])), found[1]


def online_votes(vault: Vault, teachers: Sequence[Ref], row: PublicBatch) -> str:
    """The path of the votes on rows asked online in the vault."""
    return f"{votes_folder(vault, teachers)}/online-{row.ref.digest}"


def recounted() -> AbstractContextManager[None]:
    """Context that adds to the error for a damaged or unreadable file of votes that votes can be cast again."""
    return saying("it holds votes: restore a copy of it, or remove it, and they are cast again, which spends nothing")


@contextmanager
def saying(what: str) -> Iterator[None]:
    """The context, whose failures to read a file of the vault say `what` it holds and what to do."""
    try:
        yield
    except NotVerified as wrong:
        raise NotVerified(f"{wrong}; {what}") from None
    except OSError as failed:
        why = f"the vault file {failed.filename} cannot be read ({failed.strerror}); {what}"
        raise EnvironmentFailed(why) from None
