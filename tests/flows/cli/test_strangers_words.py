"""Words of strangers do nothing but stand there: in a sentence, a table, a card, a plan or a CSV file.

A folder that a stranger made, and signed by a key of theirs, names everything by WORDS.
"""

import io
import json
import shutil
import tomllib
import unicodedata
import zipfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from markdown_it import MarkdownIt
from sklearn.linear_model import LogisticRegression

from tests.support.console import heard
from tests.support.published import SESSION, certified, leading, rewrite, world_in
from tests.tasks.verify.signed_folder import sign_again
from tests.world import Encoding, OneHot, Scaled, calibrated_stable, canonical_file, dump, published_student, sha256

STABLE = calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)
OURS = "ok   people-1: signer: a key you trust"
WORDS = (
    f"\x1b[2J\x1b[32mok\x1b[0m {OURS}",
    "\x1b]8;;https://stranger.example\x07a link\x1b]8;;\x07",
    "\x9b2J, by the other way to begin a sequence",
    f"a line\n{OURS}",
    f"another\r{OURS}\v\f\x85{OURS}\u2028{OURS}",
    "turned \u202eexe.txt\u2066 hidden\u200e\u2069",
    "\ufeffjoined\u00ad\U000e0041",
    "[a link](https://stranger.example) ![](https://stranger.example) <https://stranger.example>",
    "<script>alert(1)</script><img src=x onerror=alert(1)> &#x202e;",
    "`code` | a cell | *loud*",
    "# A heading",
    "so:\n\n## A heading\n\n- a list\n\n    a block\n\n```\ncode",
    "[red]not ours[/red] [link=https://stranger.example]here[/] :bomb:",
    "[/]",
    "=cmd|' /C calc'!A0",
)
KEPT = ("session", "format", "$schema", "path", "digest", "by", "status", "filter", "part", "name", "date", "champion")
"""What a stranger cannot name at will, or by which files are found."""


def other_words(value: Any, words: Iterator[str]) -> Any:
    """A certificate that says the stranger's words wherever it may."""
    match value:
        case str():
            return next(words)
        case list():
            return [other_words(part, words) for part in value]
        case dict():
            return {key: part if key in KEPT else other_words(part, words) for key, part in value.items()}
    return value


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = world_in(tmp_path_factory.mktemp("home") / "home")
    certified(made, STABLE, made.truth)
    return made.released.root / SESSION


def published(original: Path, folder: Path, file: bytes) -> Path:
    shutil.copytree(original, folder)
    (folder / "student.skops").write_bytes(file)

    def change(values: dict[str, Any]) -> None:
        words = cycle(WORDS)
        said = {"issuer": WORDS[0], "use": WORDS[11]}
        values["about"].update(said, date="2026-05-03", justification=WORDS[10])
        values.update(warnings=[*WORDS], caveats=[*WORDS, *values["caveats"]], features=[*WORDS])
        values["student"].update(estimator=WORDS[0], params={WORDS[1]: WORDS[7]}, refused=WORDS[5])
        by = values["versions"]["concord"]  # without it no certificate is read
        for name in ("guarantee", "student", "versions", "domain"):
            values[name] = other_words(values[name], words)
        values["versions"]["concord"] = by
        leading(values)["mechanism"] = other_words(leading(values)["mechanism"], words)
        values["domain"]["name"] = WORDS[3]
        leading(values)["mechanism"]["name"] = WORDS[9]
        values["student"]["file"]["digest"] = sha256(file)

    rewrite(folder, change)
    sign_again(folder)
    return folder


def student(classes: tuple[str, ...], columns: tuple[str, ...]) -> bytes:
    """The file of a student of those classes, and of columns with words of the same names."""
    words = [OneHot(name=name, vocabulary=WORDS, missing=False) for name in columns]
    number = Scaled(kind="numeric", name="size", mean=0, scale=1, fill=0, low=-1, high=1, missing=False)
    encoding = Encoding(columns=(number, *words), label="kind", classes=classes)
    X = np.random.default_rng(3).random((4 * len(classes), encoding.width))
    return dump(published_student(encoding, LogisticRegression().fit(X, np.array(classes * 4))))


@pytest.fixture(scope="module")
def folder(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(original, tmp_path_factory.mktemp("theirs") / SESSION, student(WORDS, WORDS))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A table of the student's columns, in a file that is named in a stranger's words too."""
    file = tmp_path / f"{WORDS[3]}{WORDS[0]}.parquet".replace("/", "")
    pl.DataFrame({"size": range(len(WORDS)), **dict.fromkeys(WORDS, pl.Series(WORDS))}).write_parquet(file)
    return file


def stands(text: str) -> bool:
    """Whether a text does nothing to a terminal, and no line of it passes for ours."""
    acts = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return acts <= {"\n"} and not any(line.startswith(OURS) for line in text.splitlines())


def asked(*words: object) -> tuple[int, str]:
    """Exit status of a command, which may print nothing but what stands; and all that it printed."""
    status, out, err = heard(*map(str, words))
    assert stands(out), out
    assert stands(err), err
    assert "Traceback" not in err
    return status, f"{out}{err}"


def test_verify_prints_them_as_they_stand(folder: Path) -> None:
    assert asked("verify", folder)[0] == 4
    assert asked("verify", folder, "--json")[0] == 4


def check_markdown(text: str) -> None:
    """Nothing is rendered that the words began."""
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert not any(tag in html for tag in ("<a ", "<img", "<script", "<pre", "<em", "<ol", "<blockquote"))
    headings = [line for line in html.splitlines() if "<h" in line]
    assert not any("<h1>A heading" in line or "<h2>A heading" in line for line in headings)
    assert len(headings) == sum(line.startswith("#") for line in text.splitlines())
    assert "stranger.example" in html


def test_export_prints_and_writes_them_as_they_stand(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "a\n\x1b[2Jb"
    assert asked("export", folder, "--to", target)[0] == 0
    assert asked("export", folder, "--to", tmp_path / "again\x1b", "--json")[0] == 0
    for name in ("example.py", "requirements.txt", "MODEL_CARD.md"):
        assert stands((target / name).read_text()), name
    check_markdown((target / "MODEL_CARD.md").read_text())


def test_errors_print_them_as_they_stand(original: Path, tmp_path: Path, rows: Path) -> None:
    """A type's name cleared the terminal and printed a green "ok", in the errors of `predict` and `export`."""
    with zipfile.ZipFile(io.BytesIO(student(("no", "yes"), ()))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["schema.json"] = parts["schema.json"].replace(
        b'"LogisticRegression"', json.dumps(f"{WORDS[0]}{WORDS[3]}").encode()
    )
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    folder = published(original, tmp_path / SESSION, canonical_file(whole.getvalue()))
    for words in (("export", folder, "--to", tmp_path / "out"), ("predict", folder, rows, "--out", tmp_path / "c.csv")):
        status, printed = asked(*words)
        assert (status, "is not a type that students consist of" in printed) == (4, True)
    missing = tmp_path / f"{WORDS[1]}\n{OURS}.csv".replace("/", "")
    assert asked("predict", folder.parent, missing, "--out", tmp_path / "c.csv")[0] == 2
    assert asked("export", missing, "--to", tmp_path / "out")[0] == 2


def test_predict_writes_their_classes_to_parquet_exactly_and_to_csv_not_at_all(
    folder: Path, rows: Path, tmp_path: Path
) -> None:
    assert asked("predict", folder, rows, "--out", tmp_path / f"{rows.stem}\x1b.csv")[0] == 2
    target = tmp_path / f"{rows.stem}\x1b out.parquet"
    status, printed = asked("predict", folder, rows, "--out", target)
    assert status == 0, printed
    assert set(pl.read_parquet(target, glob=False)["class"]) <= {*WORDS}
    assert [path for path in tmp_path.iterdir() if path not in (rows, target)] == []


@pytest.mark.slow
def test_a_plan_of_their_columns_names_them_exactly(tmp_path: Path) -> None:
    """Of public tables, whoever made them: DEL in a name ended `concord init` in a traceback."""
    names = (*WORDS, "the end\x7f")
    rng = np.random.default_rng(5)
    rows = pl.DataFrame({name: rng.normal(size=60) for name in names})
    rows.write_parquet(tmp_path / "public.parquet")
    labelled = rows.with_columns(label=pl.Series([*WORDS[:4]] * 15))
    for name in ("private", "test"):
        labelled.write_parquet(tmp_path / f"{name}.parquet")
    tables = (words for name in ("private", "public", "test") for words in (f"--{name}", tmp_path / f"{name}.parquet"))
    plan = tmp_path / "plan.toml"
    stated = ("--label", "label", "--domain", "d", "--rows", "3000", "--home", tmp_path / "home")
    assert asked("init", *tables, *stated, "--out", plan)[0] == 0
    text = plan.read_text()
    data = tomllib.loads(text)["data"]
    assert (stands(text), data["features"], set(data["classes"])) == (True, [*names], {*WORDS[:4]})


def test_a_table_without_their_columns_is_told_as_it_stands(folder: Path, tmp_path: Path) -> None:
    pl.DataFrame({"size": [1]}).write_parquet(tmp_path / "rows.parquet")
    assert asked("predict", folder, tmp_path / "rows.parquet", "--out", tmp_path / "c.parquet")[0] == 2
