"""The format of a home: a new home is of this version's, and one of another version is left alone."""

import errno
import os
from pathlib import Path

import pytest

from tests.support.sentences import facts
from tests.world import FORMAT, UNFINISHED, EnvironmentFailed, NotVerified, check_format


def test_a_new_home_is_of_this_format(tmp_path: Path) -> None:
    check_format(tmp_path)
    assert (tmp_path / "format").read_text() == f"{FORMAT}\n"
    assert set(os.listdir(tmp_path)) == {"format", UNFINISHED}


@pytest.mark.parametrize("form", [FORMAT - 1, FORMAT + 1])
def test_the_home_of_another_version_is_left_alone(tmp_path: Path, form: int) -> None:
    (tmp_path / "format").write_text(f"{form}\n")
    with pytest.raises(NotVerified, match=facts("another version of Concord", "2.0.0 alone", "keep the older version")):
        check_format(tmp_path)
    assert os.listdir(tmp_path) == ["format"]


def test_a_format_that_is_no_number_stops(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("two")
    with pytest.raises(NotVerified, match="must hold the number of a format"):
        check_format(tmp_path)


def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(EnvironmentFailed, match=r"cannot be used: No space left"):
            check_format(tmp_path)
    check_format(tmp_path)
    assert (tmp_path / "format").exists()
