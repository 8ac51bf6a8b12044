"""Texts that users meet, rendered by the code that shows them to a page each in this folder.

make reference      # writes them

Elsewhere tests ask a sentence for its facts (tests/support/sentences.py); how it is worded stands here alone."""

import html
import io
import json
import re
from collections.abc import Callable, Iterable
from contextlib import chdir, redirect_stdout
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from concord import __version__
from tests import world
from tests.support.console import heard
from tests.support.evaluated import EVALUATIONS, evaluated
from tests.support.people import write_tables
from tests.support.published import SESSION, certified, world_in
from tests.support.recorded import RECORDED
from tests.texts import wrong_inputs, wrong_plans, wrong_tables

FOLDER = Path(__file__).parent
WIDTH = 120
"""Letters in a line of the console."""
LONGEST = 100
"""Characters of a wrong setting that are shown."""

MASKED = {
    r"\b[0-9a-f]{32,}\b": "…",
    r"\b20\d\d-\d\d-\d\d[T ][\d:.]+\S*": "MOMENT",
    r"Usage: .*?concord\b": "Usage: concord",
    r"[─━┏┓┗┛┡┩└┘┴┳╇╭╮╰╯│┃┼├┤]+": " ",
}
"""Shapes of digests and long numbers, of moments, of how Python was started, and of frames."""


def _told(cases: Iterable[tuple[str, str, Callable[[], object]]]) -> str:
    """What is said of each wrong case, by its section."""
    lines, section = list[str](), ""
    for name, given, attempt in cases:
        lines += [] if name == section else [f"\n{name}"]
        section = name
        with pytest.raises(world.WrongInput) as told:
            attempt()
        lines += [f"  {given if len(given) <= LONGEST else f'{given[:LONGEST]}…'}", f"    → {told.value}"]
    return "\n".join(lines)


def of_wrong_plans() -> str:
    """What is said of each wrong plan, and of each wrong field of a schema."""
    return _told(
        (name, ", ".join(f"{key} = {json.dumps(value)}" for key, value in changes.items()), parse)
        for name, changes, parse in wrong_plans.wrong()
    )


def of_wrong_tables() -> str:
    """What is said of each wrong table."""
    with TemporaryDirectory() as folder:
        return _told(wrong_tables.wrong(Path(folder))).replace(f"{folder}/", "")


def help_pages() -> str:
    """The first page of help, and that of a command."""
    return "\n".join(heard(*command, "--help")[1] for command in ((), ("run",)))


def first_minutes() -> str:
    """What `init` says, the plan it writes, and what `plan` says of it; without the figures of simulations."""
    with TemporaryDirectory() as folder, chdir(write_tables(Path(folder))):
        tables = ("--private", "private.csv", "--public", "public.parquet", "--test", "test.parquet")
        stated = ("--label", "outcome", "--unit", "person", "--domain", "people", "--rows", "6000")
        printed = [heard("init", *tables, *stated)[1], Path("plan.toml").read_text(), heard("plan", "plan.toml")[1]]
        return re.sub(r"\d[\d.]*%", "N%", "\n".join(printed))


@cache
def _published() -> tuple[world.Certificate, list[dict[str, Any]], str]:
    """A certificate of a session, the checks of its folder, and the budget after it."""
    with TemporaryDirectory() as folder:
        small = world_in(Path(folder) / "home")
        certified(small, world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20), small.truth)
        found = small.released.root / SESSION
        checks = [check.model_dump() for check in world.verify_published(found)]
        budget = _printed(lambda: world.show_budget(world.budget_of(small.home)))
        return world.PublishedSession.at(found).certificate, checks, budget


def _printed(show_it: Callable[[], object]) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        show_it()
    return printed.getvalue()


def after_a_run() -> str:
    """The outcome of runs by votes and by tallies, the budget, and what verification says of a folder."""
    certificate, checks, budget = _published()
    share = {"value": 0.9, "low": 0.8, "high": 0.95}
    common: dict[str, Any] = {
        **{"run_id": "r", "domain": "people", "session": SESSION, "certificate": "certificate.json"},
        **{"certificate_digest": "", "report": "report.html", "stages": [], "conversion": 1.7},
        "guarantee": certificate.guarantee.shown(),
        "student": world.measures_of(certificate) | {"champion": True},
        **{"mechanism": certificate.mechanism.settings, "teachers": 100, "spent_now": {"epsilon": 1.0, "delta": 1e-5}},
        **{"asked": 300, "answered": 300, "refused": 0, "asked_now": 300},
        "lifetime": {"now": 0.1, "used": 0.2, "more": 8},
    }
    votes = world.Summary(**common)
    measures = {"accuracy": share, "balanced_accuracy": share, "majority": 0.6, "rows": 900, "classes": ()}
    private = world.TestRecord.model_validate({**measures, "share": 0.1, "clean": False, "earlier": 0, "level": 0.95})
    common |= {"lifetime": {"now": 0.0, "used": 0.2, "more": None}, "mechanism": RECORDED["tallies"], "teachers": 0}
    common |= {"asks": "rounds", "asked": 3, "asked_now": 1, "inferred": 300, "not_asked": 50}
    common |= {"test": {"in_words": private.in_words}}
    sums = world.Summary(**common, warnings=["recall is 0 for 'yes'"])
    runs = [_printed(partial(world.show, each, Path("home"))) + world.outcome_in_words(each) for each in (votes, sums)]
    return "\n\n".join([*runs, budget, *(f"{check['name']}: {check['detail']}" for check in checks)])


def report() -> str:
    """All of a report."""
    return _words_of(world.render(_published()[0], {}))


def verdicts() -> str:
    """The verdict of each evaluation, and the warnings it gives of a student that learned from votes and from sums;
    and those of students that no test measures."""
    certificate, lines = _published()[0], list[str]()
    for name, (public, private) in EVALUATIONS.items():
        of_votes, of_sums = (world.warnings_of(public, private, tallied=tallied) for tallied in (False, True))
        lines += [f"\n{name}", world.verdict_of(evaluated(certificate, public, private))[1], *of_votes]
        lines += [f"of sums: {text}" for text in of_sums if text not in of_votes]
    for released, tallied in (((), False), (("no",), False), (("no",), True), (("no", "yes"), False)):
        lines += [f"\nlabels {released}, {'of sums' if tallied else 'of votes'}"]
        lines += [*world.untested(released, None, tallied=tallied), *world.untested(None, released, tallied=tallied)]
    return "\n".join(lines)


def _words_of(page: str) -> str:
    """What a reader sees of a page, a paragraph or a row a line."""
    page = re.sub(r"<(style|svg|title)\b.*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"</?(b|a|i|em|strong|code|span|abbr)\b[^>]*>", "", " ".join(page.split()))
    return html.unescape(re.sub(r"(\s*</?(td|th)\b[^>]*>)+", " ", page).replace("</tr>", "\n"))


def _plain(text: str) -> str:
    """Without tags, frames, digests, versions and dates, and with single spaces."""
    text = re.sub(r"<[^>]*>", "\n", text).replace(__version__, "VERSION")
    for shape, word in MASKED.items():
        text = re.sub(shape, word, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


TEXTS: dict[str, Callable[[], str]] = {
    "wrong_plans": of_wrong_plans,
    "wrong_tables": of_wrong_tables,
    "wrong_inputs": wrong_inputs.sentences,
    "help": help_pages,
    "first_minutes": first_minutes,
    "after_a_run": after_a_run,
    "report": report,
    "verdicts": verdicts,
}


def rendered(name: str) -> str:
    """The text of a page, as it is now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(WIDTH))
        # as the variable says it where it is set before the import
        patch.setattr(world.flows_console.out, "_width", WIDTH)
        patch.delenv("CONCORD_HOME", raising=False)
        return _plain(TEXTS[name]())


def write_all() -> None:
    """Write all pages anew."""
    for name in TEXTS:
        (FOLDER / f"{name}.txt").write_text(rendered(name), encoding="utf-8")


if __name__ == "__main__":
    write_all()
