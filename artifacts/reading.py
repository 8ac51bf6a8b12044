"""Reading: what a ledger says to whoever asks, as it stands now or as it stood after an earlier entry."""

from collections.abc import Callable
from typing import TypeVar

from artifacts.book import Book
from artifacts.privacy import Charge
from artifacts.remarks import Remark
from artifacts.sessions import Batch, Domain, Session

Answer = TypeVar("Answer")


class Reading:
    """What one book says. `artifacts.ledger.Ledger` is a reading that brings its book up to date at every question."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def domain(self, name: str) -> Domain | None:
        """The domain of that name, if there is one."""
        return self._read(lambda book: book.domains.get(name))

    def domains(self) -> tuple[Domain, ...]:
        """Every domain, in the order they were named."""
        return self._read(lambda book: tuple(book.domains.values()))

    def linked(self, domain: str) -> tuple[Domain, ...]:
        """The domains it is linked to on the record, by one link or by several, of those that were named yet."""
        others = self._read(lambda book: book.remarks.linked(domain))
        return tuple(one for one in self.domains() if one.name in others)

    def session(self, name: str) -> Session:
        """The session of that id. Raises WrongInput where there is none."""
        return self._read(lambda book: book.session(name))

    def sessions(self, domain: str) -> tuple[Session, ...]:
        """The domain's sessions, in the order they were opened."""
        return self._read(lambda book: book.sessions_of(domain))

    def batches(self, session: str) -> tuple[Batch, ...]:
        """The session's batches so far, with the outcomes of those committed."""
        return self._read(lambda book: book.batches(session))

    def remarks(self, domain: str) -> tuple[Remark, ...]:
        """What was remarked of the domain, in order; nothing for a domain without remarks."""
        return self._read(lambda book: book.remarks.on(domain))

    def total(self, domain: str) -> Charge:
        """Everything settled and reserved in the domain, and what was lost to an older copy."""
        return self._read(lambda book: book.total(domain))

    def lost(self, domain: str) -> Charge:
        """What restorations charged for sessions that the ledger no longer knows."""
        return self._read(lambda book: book.lost(domain))

    @property
    def witnessed(self) -> bool:
        """Whether the record says that a witness outside sees every change."""
        return self._read(lambda book: book.witnessed)

    @property
    def lost_its_witness(self) -> bool:
        """Whether the record says that a witness was gone once, and how far it had seen is not known."""
        return self._read(lambda book: book.lost_its_witness)

    @property
    def restored(self) -> bool:
        """Whether it went on once without all that its witness had seen."""
        return self._read(lambda book: bool(book.restored) or book.lost_its_witness)

    def _read(self, ask: Callable[[Book], Answer]) -> Answer:
        return ask(self._book)
