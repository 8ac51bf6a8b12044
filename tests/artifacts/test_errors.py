"""An error of ours tells one sentence and nothing else, whoever pickles it on its way out of a stage; and words of
others are printed as letters that do nothing."""

import copyreg
import json
import pickle
import resource
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.sentences import facts

VALUE = "a private value"
KINDS = [world.EnvironmentFailed, world.WrongInput, world.BudgetRefused, world.NotVerified]


class Leaky(Exception):
    """What our errors would be, were they like any other."""


@pytest.fixture
def picklers() -> Iterator[None]:
    """Exceptions pickled with all they hang on, as tblib (which Dask brings) does."""
    support = pytest.importorskip("tblib.pickling_support")
    before = dict(copyreg.dispatch_table)
    support.install(*KINDS, world.ConcordError, Leaky, OSError)
    yield
    copyreg.dispatch_table.clear()
    copyreg.dispatch_table.update(before)


def raised(kind: type[Exception], *, because: bool) -> Exception:
    """An error raised over another, or because of it."""
    try:
        raise OSError(VALUE)
    except OSError as cause:
        with pytest.raises(kind) as within:
            raise kind("the disk is full") from cause if because else None
    return within.value


@pytest.mark.usefixtures("picklers")
@pytest.mark.parametrize("because", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_an_error_of_ours_was_raised_over_is_not_pickled(because: bool, kind: type[world.ConcordError]) -> None:
    assert VALUE.encode() in pickle.dumps(raised(Leaky, because=because))  # as any other error would tell
    result: Any = raised(kind, because=because)
    assert (result.__context__, result.__cause__) == (None, None)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(result, protocol)
        assert VALUE.encode() not in pickled
        again = pickle.loads(pickled)
        assert (type(again), str(again), again.exit_status) == (kind, "the disk is full", kind.exit_status)
    assert VALUE not in "".join(traceback.format_exception(result))


HONEST = ["<=50K", "naïve", "漢字", "é-ε", "🙂", "non\u00a0breaking", "12\u202f%", "می\u200cخواهم", "a\\b", ""]
ACTING = [*"\x1b\x9b\x07\x7f\r\n\t\x85\u2028\u202e\u2066\ufeff\U000e0041"]
NO_TEXT = "\udcff"
"""What Python makes of a byte that is no letter."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("letter", [*ACTING, NO_TEXT])
def test_a_sentence_stands_on_its_line_whoever_s_words_are_in_it(kind: type[world.ConcordError], letter: str) -> None:
    sentence = str(kind(f"no such class: {letter}ok"))
    assert sentence.startswith("no such class: \N{REPLACEMENT CHARACTER}")
    assert (sentence.splitlines(), world.is_printable(sentence)) == ([sentence], True)
    assert str(pickle.loads(pickle.dumps(kind(sentence)))) == sentence


@pytest.mark.parametrize("word", HONEST)
def test_honest_words_are_printed_as_they_are(word: str) -> None:
    assert world.in_one_line(word) == world.in_lines(word) == str(world.WrongInput(word)) == word
    assert world.is_printable(word)
    assert json.loads(world.in_json([word])) == [word]
    assert word.replace("\\", "\\\\") in world.in_json(word)


@pytest.mark.parametrize("letter", [*ACTING, NO_TEXT])
def test_json_loses_nothing_and_does_nothing(letter: str) -> None:
    value = {f"a{letter}": [letter, f"{letter}b"], "c": 1}
    text = world.in_json(value)
    assert json.loads(text) == value
    assert world.in_lines(text) == text
    assert len(text.splitlines()) == 1


def test_lines_are_ours() -> None:
    assert world.in_lines("a\x1b\nb\r\n") == "a\N{REPLACEMENT CHARACTER}\nb\N{REPLACEMENT CHARACTER}\n"


def test_too_many_open_files_are_named_as_the_cause_whatever_was_to_be_done(tmp_path: Path) -> None:
    """It said that the vault cannot be written."""
    vault, released = world.Vault(tmp_path / "vault"), world.Released(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    works: list[Callable[[], object]] = [
        lambda: vault.keep("a", b"a"),
        lambda: released.write("session/a", b"a"),
    ]
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # those that are open stay so
    try:
        for work in works:
            with pytest.raises(world.EnvironmentFailed, match=facts("too many files", "may open 3")):
                work()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
