"""A scene over canaries: a home folder, a plan and the console's output, searched for leaks after each act."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.promises.canary import operated, published
from tests.promises.marks import Marks, leaks
from tests.support.people import changed
from tests.world import Plan, Summary, stage_named, start


@dataclass
class Scene:
    """The scene of a test. `marks_of` returns the marks to search for, from a private folder and a home."""

    home: Path
    tables: dict[str, Any]
    capture: pytest.CaptureFixture[str]
    log: pytest.LogCaptureFixture
    messages: list[str] = field(default_factory=list)
    marks_of: Callable[[Path, Path], Marks] = Marks.of

    @property
    def private(self) -> Path:
        return Path(self.tables["folder"], self.tables["data"]["private"])

    def plan(self, **changes: Any) -> Plan:
        return changed(self.tables, **changes)

    def run(self, *, new_session: bool = False, start_from: str | None = None, **changes: Any) -> Summary:
        return start(self.plan(**changes), self.home, new_session=new_session, start_from=stage_named(start_from))

    def fails(self, error: type[BaseException], *, new_session: bool = False, **changes: Any) -> str:
        """The message of a run that must fail; checks that nothing leaked."""
        return self.refuses(error, lambda: self.run(new_session=new_session, **changes))

    def refuses(self, error: type[BaseException], act: Callable[[], object]) -> str:
        """The message of an act that must fail; checks that nothing leaked."""
        with pytest.raises(error) as failed:
            act()
        self.messages.append(str(failed.value))
        self.nothing_got_out()
        return str(failed.value)

    def marks(self) -> Marks:
        """The marks of everything that the home has made of the private folder so far."""
        return self.marks_of(self.private, self.home)

    def nothing_got_out(self, marks: Marks | None = None) -> None:
        """Check that none of `marks` leaked; by default, of all marks so far."""
        marks = marks or self.marks()
        assert leaks(published(self.home), marks.with_names()) == []
        assert leaks(operated(self.home), marks) == []
        console = "".join((*self.capture.readouterr(), self.log.text, *self.messages))
        assert marks.found(console.encode()) == set()
        assert [path for path in (self.home / "vault").rglob("*") if path.stat().st_mode & 0o077] == []

    def nothing_is_left(self, marks: Marks, goes_on: Sequence[str] = ()) -> None:
        """Check that the vault holds none of `marks`, taken before: no private value, and nothing made from one, but
        for the keys of sessions that go on."""
        gone = {what: mark for what, mark in marks.literals.items() if "the key" not in what or "sessions/" in what}
        assert any(what.startswith("the key sessions/") for what in gone)
        for name in goes_on:
            del gone[f"the key sessions/{name}"]
        assert leaks([self.home / "vault"], Marks(gone, marks.numbers)) == []
