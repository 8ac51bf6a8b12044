"""The values of a stranger's student are checked as it is loaded, before anything is written by them."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tests.support.console import concord
from tests.support.published import rewrite
from tests.support.sentences import says
from tests.tasks.verify.signed_folder import sign_again
from tests.world import (
    Chosen,
    Code,
    Encoding,
    NotVerified,
    OneHot,
    Passed,
    Scaled,
    ScoreClassifier,
    Tallied,
    dump,
    load,
    published_student,
    sha256,
)

CODE = "1}}]); open({marker!r}, 'w') #"
"""What a size, a word or a name may be, to become a part of a program of `[0] * SIZE`."""
ENCODING = Encoding(
    columns=(
        Scaled(kind="numeric", name="size", mean=0, scale=1, fill=0, low=-1, high=1, missing=False),
        OneHot(name="shade", vocabulary=("dark", "light"), missing=False),
        Passed(name="image", element="uint8", size=4),
    ),
    label="kind",
    classes=("no", "yes"),
)


def student() -> Any:
    X = np.random.default_rng(2).random((20, ENCODING.width))
    return published_student(ENCODING, LogisticRegression().fit(X, np.array(["no", "yes"] * 10)))


def publish(folder: Path, made: Any) -> Path:
    """Put a student into a published folder, and sign it as its stranger would."""
    (folder / "student.skops").write_bytes(file := dump(made))
    rewrite(folder, lambda values: values["student"]["file"].update(digest=sha256(file)))
    sign_again(folder)
    return folder


def part(made: Any, column: str) -> Any:
    return next(part for _, part, names in made["encode"].transformers_ if column in names)


def sized(made: Any, code: str) -> None:
    part(made, "image")[0].size = code


def kinded(made: Any, code: str) -> None:
    part(made, "size")[0].kind = code


def filled(made: Any, code: str) -> None:
    part(made, "size")["fill"].statistics_ = np.array([code], dtype=object)


def worded(made: Any, code: str) -> None:
    part(made, "shade")[1].categories_ = [np.array([LogisticRegression(solver=code), "dark"], dtype=object)]


def coded(made: Any, code: str) -> None:
    part(made, "shade").steps[1] = ("code", Code(0, words=[LogisticRegression(solver=code)]))


def cut(made: Any, code: Any) -> None:
    part(made, "size").steps[1] = ("code", Code(0, cuts=[code]))


def classed(made: Any, code: str) -> None:
    made["student"].classes_ = np.array([LogisticRegression(solver=code), "yes"], dtype=object)


def named(made: Any, code: str) -> None:
    columns = made["encode"].transformers_
    made["encode"].transformers_ = [(name, part, [LogisticRegression(solver=code)]) for name, part, _ in columns]


CHANGES = [sized, kinded, filled, worded, coded, cut, classed, named]


@pytest.mark.parametrize("change", CHANGES)
def test_a_strangers_value_becomes_no_part_of_a_program(
    folder: Path, tmp_path: Path, change: Callable[[Any, str], None]
) -> None:
    """The size of a list, a text, was written into example.py, which the card tells its reader to run."""
    marker, made = tmp_path / "marker", student()
    change(made, CODE.format(marker=str(marker)))
    status, _, answer = concord("export", str(publish(folder, made)), "--to", str(tmp_path / "out"))
    named = says(answer, "the student's", "Concord")
    assert (status, (tmp_path / "out").exists(), named) == (4, False, True), answer
    assert not marker.exists()


def test_words_of_a_stranger_stay_words_in_a_program(folder: Path, tmp_path: Path) -> None:
    code = CODE.format(marker=str(tmp_path / "marker"))
    columns = [column.model_copy(update={"name": f"{column.name}'{code}"}) for column in ENCODING.columns]
    odd = columns[1].model_copy(update={"vocabulary": (f"'{code}", f'"""{code}')})
    encoding = ENCODING.model_copy(update={"columns": (columns[0], odd, columns[2])})
    made = published_student(encoding, student()["student"])
    assert concord("export", str(publish(folder, made)), "--to", str(tmp_path / "out"))[0] == 0
    program = ast.parse((tmp_path / "out" / "example.py").read_text())
    called = [node.func for node in ast.walk(program) if isinstance(node, ast.Call)]
    assert {ast.unparse(each) for each in called} == {"skops.io.load", "pd.DataFrame", "print", "student.predict"}


ANY: Any = (Code, Chosen)
code, chosen = ANY
OTHERS: dict[str, Any] = {
    "no number": code("0"),
    "a truth value": code(True),
    "below zero": code(-1),
    "infinite": code(0, cuts=[float("inf")]),
    "no words": code(0, words=[1]),
    "no hypothesis": chosen(["box"], ["no", "yes"]),
    "the same class": ScoreClassifier(LogisticRegression(), ["no", "no"]),
    "no class": ScoreClassifier(LogisticRegression(), []),
    "no point": Tallied(np.ones((2, 1)), np.ones(1), np.ones(1), ["no", "yes"], "elsewhere"),
    "no weights": Tallied(np.array([["a"]]), np.ones(1), np.ones(1), ["no", "yes"]),
    "weights of nothing": Tallied(np.array([[np.nan]]), np.ones(1), np.ones(1), ["no", "yes"]),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_part_with_another_value_is_not_loaded(what: str) -> None:
    with pytest.raises(NotVerified, match=r"^the student's \w+ has a \w+ that Concord never writes$"):
        load(dump(OTHERS[what]))


@pytest.mark.parametrize("file", [b"", b"PK", b"no archive"])
def test_a_file_that_is_no_student_is_one_sentence(file: bytes) -> None:
    with pytest.raises(NotVerified, match=r"^the student's file is not one that Concord writes \(\w+\)$"):
        load(file)


def test_a_student_that_fails_on_purpose_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    made = student()
    made["student"].coef_ = np.ones((1, 1))
    publish(folder, made)
    rows = tmp_path / "rows.csv"
    rows.write_text("size,shade,image\n1,dark,\n")
    status, _, answer = concord("predict", str(folder), str(rows), "--out", str(tmp_path / "c.csv"))
    assert (status, "not one that Concord writes (ValueError)" in answer) == (4, True), answer
    assert not (tmp_path / "c.csv").exists()


def test_an_honest_student_is_loaded() -> None:
    assert dump(load(dump(student()))) == dump(student())
