"""An error of ours tells one sentence and nothing else, whoever pickles it on its way out of a stage."""

import copyreg
import pickle
import traceback
from collections.abc import Callable, Iterator

import pytest

from concord.artifacts.errors import BudgetRefused, ConcordError, EnvironmentFailed, NotVerified, WrongInput

VALUE = "a private value"
KINDS = [EnvironmentFailed, WrongInput, BudgetRefused, NotVerified]


class Leaky(Exception):
    """What our errors would be, were they like any other."""


@pytest.fixture
def picklers() -> Iterator[None]:
    """Exceptions pickled with all they hang on, as tblib (which Dask brings) does."""
    support = pytest.importorskip("tblib.pickling_support")
    before = dict(copyreg.dispatch_table)
    support.install(*KINDS, ConcordError, Leaky, OSError)
    yield
    copyreg.dispatch_table.clear()
    copyreg.dispatch_table.update(before)


def over_another(kind: type[Exception]) -> None:
    try:
        raise OSError(VALUE)
    except OSError:
        raise kind("the disk is full") from None


def because_of_another(kind: type[Exception]) -> None:
    try:
        raise OSError(VALUE)
    except OSError as cause:
        raise kind("the disk is full") from cause


def raised(way: Callable[[type[Exception]], None], kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as within:
        way(kind)
    return within.value


@pytest.mark.usefixtures("picklers")
@pytest.mark.parametrize("way", [over_another, because_of_another])
@pytest.mark.parametrize("kind", KINDS)
def test_what_an_error_of_ours_was_raised_over_is_not_pickled(
    way: Callable[[type[Exception]], None], kind: type[ConcordError]
) -> None:
    result = raised(way, kind)
    assert (result.__context__, result.__cause__) == (None, None)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(result, protocol)
        assert VALUE.encode() not in pickled
        again = pickle.loads(pickled)
        assert (type(again), str(again), again.exit_status) == (kind, "the disk is full", kind.exit_status)
    assert VALUE not in "".join(traceback.format_exception(result))


@pytest.mark.usefixtures("picklers")
@pytest.mark.parametrize("way", [over_another, because_of_another])
def test_any_other_error_would_tell(way: Callable[[type[Exception]], None]) -> None:
    assert VALUE.encode() in pickle.dumps(raised(way, Leaky))
