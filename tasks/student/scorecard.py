"""A linear student as a scorecard: points for each cell, as JSON, and as one SQL statement that scores a table.

    scorecard.json   the rule by which a cell is read, the points of each code, and how they become a prediction
    scorecard.sql    the same as a statement of standard SQL: put the name of a table in place of "rows"

A threshold is the least probability at which to predict a class that the student may never predict by itself. The JSON
lists it; the statement adds a column with the prediction at it, if there are two classes.

Assumes      the student is linear: one that tallies decode to (`concord_tallied`); its values were checked
             (tasks.student.trust); columns of the database have the types that the JSON names
Guarantees   the statement gives each row the class that the student predicts, up to ties of scores that differ by the
             rounding of sums; names and words are quoted, so no value of a student becomes a part of the program. A
             column that the table lacks is an error
Not covered  cells of another type than their column's, such as numbers in words, or text such as 2026-02-31 for a date;
             moments of another time zone than UTC; text with blanks at its ends other than spaces, or not composed;
             names of columns that begin with concord_, or differ by case alone, and further ones that are called as the
             prediction is; databases that read a backslash in text, or text in double quotes, such as MySQL
             Checked by tests/tasks/student/test_scorecard.py in SQLite, DuckDB and PostgreSQL
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from sklearn.pipeline import Pipeline

from concord.artifacts.errors import is_printable
from concord.tasks.data.concord_student import DAY, EPOCH, TRUTH, Cells
from concord.tasks.student.concord_tallied import Code, Joined, Pairs, Tallied, TalliedNumber, log_odds

FORMAT = "concord scorecard 2"
RULES = {
    "numeric": "a number; if there is none, or one beyond 1e100, the cell is missing. It belongs to the interval whose "
    "lower end is at or below it",
    "boolean": f"a truth value, or one of the words {', '.join(TRUTH)}; anything else is missing. True is 1 and false "
    "is 0",
    "date": "a date or moment, or text written as 2026-12-31; anything else is missing. It belongs to the interval "
    "whose lower end is at or before it",
    "categorical": "text, without blanks around it and in Unicode's composed form (NFC); a word that is not listed "
    "counts as missing",
    "hashed": "text, without blanks around it and in Unicode's composed form (NFC), by its bucket: 1 + the first 8 "
    "bytes of the SHA-256 of its UTF-8, as a whole number, modulo the number of buckets. The name of a bucket is in "
    "that bucket. Standard SQL cannot hash, so there is no statement",
}
"""How a cell of each kind is read (concord_student.Cells)."""
SQL_TYPES = {
    "numeric": "a number",
    "boolean": "a truth value",
    "date": "a date, or text such as 2026-12-31",
    "categorical": "text",
}
NUMBER, TEXT = "DOUBLE PRECISION", "VARCHAR"
NO_THRESHOLDS: Mapping[str, float] = MappingProxyType({})
AT_THRESHOLDS = (
    "the student may never name these classes by itself: name one where its probability is at least this, and else the "
    "class of highest probability among the others. The probability of a class is "
)
OF_TWO, OF_MORE = (
    "1 / (1 + exp(-score)) of the second class, and 1 minus that of the first",
    "exp(its score) / the sum of exp(score) over all classes",
)
TABLE = "concord_rows"
"""What the statement calls the table."""


def has_scorecard(student: Pipeline) -> bool:
    """Whether the student is a sum of points, which alone has a scorecard."""
    return isinstance(student[-1], Tallied | TalliedNumber)


def has_statement(student: Pipeline) -> bool:
    """Whether a statement of standard SQL can score a table: not if texts are hashed or cells spelled otherwise, nor if
    the nearest of centres is sought, nor if a name or a word has a letter that is not printed, which could hide a part
    of the statement."""
    if (
        not has_scorecard(student)
        or "joined" in student.named_steps
        or any(type(cells) is not Cells or cells.kind not in SQL_TYPES for _, cells, _ in _parts(student))
    ):
        return False
    words = (word for name, _, code in _parts(student) for word in (name, *code.words, *code.others))
    return all(map(is_printable, (*words, *getattr(student[-1], "classes", ()))))


def scorecard(student: Pipeline, thresholds: Mapping[str, float] = NO_THRESHOLDS) -> dict[str, Any]:
    """The scorecard of a linear student as JSON.

    thresholds   least probabilities at which to predict classes that it may never predict by itself
    """
    model = student[-1]
    pairs = student["pairs"] if "pairs" in student.named_steps else None
    card = {
        "format": FORMAT,
        "score": "the intercept plus the points of every column and pair, in log-odds; one for each class",
        "columns": [_column(name, cells, code, model.weights) for name, cells, code in _parts(student)],
        "pairs": [] if pairs is None else [*_pairs(student, pairs, model.weights)],
        "intercept": model.intercept.tolist(),
    }
    if "joined" in student.named_steps:
        card["numbers together"] = _joined(student, student["joined"], model.weights)
    if isinstance(model, TalliedNumber):
        rule = "the logistic of the score is the place between the bounds"
        return {**card, "predicts": {"bounds": [model.low, model.high], "rule": rule}}
    rule = (
        "the second class if the score is above the threshold, else the first"
        if len(model.intercept) == 1
        else "the class whose score is most above its threshold; of equal ones the first"
    )
    points = {"default": [0.0] * len(model.intercept), "prior odds": log_odds(model.prior).tolist()}
    predicts = {"classes": [*model.classes], "rule": rule, "point": model.point, "thresholds": points}
    if named := {name: least for name, least in thresholds.items() if name in model.classes}:
        rule = AT_THRESHOLDS + (OF_TWO if len(model.intercept) == 1 else OF_MORE)
        predicts["at probabilities"] = {"rule": rule, "classes": named}
    return {**card, "predicts": predicts}


def scorecard_json(student: Pipeline, thresholds: Mapping[str, float] = NO_THRESHOLDS) -> str:
    """The text of `scorecard`."""
    return json.dumps(scorecard(student, thresholds), indent=1, ensure_ascii=False) + "\n"


def _parts(student: Pipeline) -> Iterator[tuple[str, Cells, Code]]:
    """For each column: its name, what reads its cells, and its code."""
    for _, part, names in student["encode"].transformers_:
        if isinstance(part, Pipeline):
            yield names[0], part[0], part[1]


def _column(name: str, cells: Cells, code: Code, weights: Any) -> dict[str, Any]:
    """The points of a column's cells: by interval or by word, and of a missing one."""
    kind, spelling = (
        cells.kind,
        {name: part for name, part in cells.get_params().items() if name not in ("kind", "size")},
    )
    points = [weights[code.start + at].tolist() for at in range(code.size)]
    about = {"name": name, "kind": kind, "rule": RULES[kind]} | ({"spelling": spelling} if spelling else {})
    if code.cuts is None:
        words = {word: points[at] for at, word in enumerate(code.words)}
        others = {"words": [*code.others], "points": points[-2]}
        return {**about, "words": words, "other words": others, "missing": points[-1]}
    ends = [_end(kind, cut) for cut in code.cuts]
    intervals = [
        {"from": low, "to": high, "points": of_interval}
        for low, high, of_interval in zip([None, *ends], [*ends, None], points[:-1], strict=True)
    ]
    return {**about, "intervals": intervals, "missing": points[-1]}


def _end(kind: str, cut: float) -> float | str:
    """The end of an interval: of dates, the first moment of it as text, whose order is that of time."""
    if kind != "date":
        return float(cut)
    nearest = round(cut * DAY)
    moment = EPOCH + timedelta(microseconds=nearest + (nearest / DAY < cut))  # a product alone may be rounded up
    if moment == datetime(*moment.timetuple()[:3]):
        return moment.date().isoformat()
    text = moment.isoformat(" ")
    return text.rstrip("0") if moment.microsecond else text  # as databases write it: a longer text is later


def _joined(student: Pipeline, joined: Joined, weights: Any) -> dict[str, Any]:
    """The points of all numbers together, by the nearest of centres."""
    parts = [*_parts(student)]
    coded = [(parts[at][0], parts[at][2]) for at in joined.columns]
    return {
        "columns": [name for name, _ in coded],
        "levels": [joined.levels[code.start : code.start + code.size].tolist() for _, code in coded],
        "centres": joined.centres.tolist(),
        "rule": "a row has in each of the columns the level at the place of its interval, a missing cell the last; its "
        "points are those of the centre with the least sum of squared differences from these levels, the first of "
        "equals",
        "points": weights[joined.start : joined.start + len(joined.centres)].tolist(),
    }


def _pairs(student: Pipeline, pairs: Pairs, weights: Any) -> Iterator[dict[str, Any]]:
    """For each pair of columns: the cell of a table that each code of either belongs to, and the table's points."""
    parts = [*_parts(student)]
    for (one, other), (left, right) in zip(pairs.both, pairs.added, strict=True):
        names, tables = [], []
        for at, added in ((one, left), (other, right)):
            name, _, code = parts[at]
            names.append(name)
            tables.append(added[code.start : code.start + code.size])
        first = int(tables[0].min())
        rows, columns = (tables[0] - first).tolist(), tables[1].tolist()
        most = first + max(rows) + max(columns)
        yield {
            "columns": names,
            "cells": [rows, columns],
            "rule": "cells[0] at the place of the first column's interval or word (other words and missing last), plus "
            "cells[1] at that of the second, is the place in points",
            "points": weights[first : most + 1].tolist(),
        }


# SQL ------------------------------------------------------------------------------------------------------------------


def scorecard_sql(student: Pipeline, thresholds: Mapping[str, float] = NO_THRESHOLDS) -> str:
    """The statement that scores a table called "rows": all its columns, `score` by class, for two classes the
    prediction at each threshold, and `prediction`, or `concord_prediction` if a column of the student has that name."""
    card = scorecard(student, thresholds)
    columns, pairs = card["columns"], card["pairs"]
    place = {column["name"]: f"concord_code_{at}" for at, column in enumerate(columns)}
    coded = [f"{_code(column)} AS {place[column['name']]}" for column in columns]
    terms = [(place[column["name"]], _points(column)) for column in columns]
    terms += [(f"concord_pair_{at}", pair["points"]) for at, pair in enumerate(pairs)]
    paired = [
        f"{_case(place[pair['columns'][0]], pair['cells'][0])} + {_case(place[pair['columns'][1]], pair['cells'][1])}"
        f" AS concord_pair_{at}"
        for at, pair in enumerate(pairs)
    ]
    scores = [
        f"CAST({_real(base)} AS {NUMBER})"
        + "".join(f"\n    + {_case(code, [points[at] for points in table])}" for code, table in terms)
        + f" AS concord_score_{at}"
        for at, base in enumerate(card["intercept"])
    ]
    comments, predictions = _at_thresholds(card["predicts"])
    answer = "concord_prediction" if "prediction" in map(str.casefold, place) else "prediction"
    predictions.append(f"{_prediction(card['predicts'])} AS {answer}")
    types = "\n".join(f"--   {_in_line(column['name'])} {SQL_TYPES[column['kind']]}" for column in columns)
    return (
        f"-- {FORMAT}: put the name of a table in place of {_name('rows')}. Its columns:\n{types}\n"
        f"-- No column may have a name that begins with concord_, and no further one the name {answer}.\n"
        f"-- Text must be composed (NFC), without tabs around it.\n"
        f"-- MySQL and BigQuery read names and words otherwise than standard SQL: not for those.\n{''.join(comments)}"
        f"WITH concord_coded AS (\n  SELECT {TABLE}.*,\n  {_listed(coded)}\n  FROM {_name('rows')} {TABLE}\n),\n"
        f"concord_paired AS (\n  SELECT concord_coded.*{''.join(f',{chr(10)}  {column}' for column in paired)}\n"
        f"  FROM concord_coded\n),\n"
        f"concord_scored AS (\n  SELECT concord_paired.*,\n  {_listed(scores)}\n  FROM concord_paired\n)\n"
        f"SELECT concord_scored.*,\n  {_listed(predictions)}\nFROM concord_scored;\n"
    )


def _listed(parts: Sequence[str]) -> str:
    return ",\n  ".join(parts)


def _points(column: dict[str, Any]) -> list[list[float]]:
    """The points of a column by the number of its code in SQL: intervals or words in order, and missing last."""
    if "words" in column:
        return [*column["words"].values(), column["other words"]["points"], column["missing"]]
    return [*(interval["points"] for interval in column["intervals"]), column["missing"]]


def _code(column: dict[str, Any]) -> str:
    """The number of a cell's interval or word, in the order of the JSON; the last if it is missing."""
    cell = f"{TABLE}.{_name(column['name'])}"  # SQLite reads a name by itself as text if there is no such column
    text = f"TRIM(CAST({cell} AS {TEXT}))"
    if "words" in column:
        last = len(column["words"])
        places = dict.fromkeys(column["other words"]["words"], last) | {w: at for at, w in enumerate(column["words"])}
        listed = "".join(f" WHEN {_text(word)} THEN {at}" for word, at in places.items())
        return f"CASE {text}{listed} ELSE {last + 1} END" if listed else f"{last + 1}"
    ends = [interval["from"] for interval in column["intervals"][1:]]
    missing = len(ends) + 1
    if column["kind"] == "boolean":
        words = {**TRUTH, "1.0": 1.0, "0.0": 0.0}  # and the numbers 1 and 0 as databases write them
        truth = "".join(f" WHEN {_text(w)} THEN {sum(end <= value for end in ends)}" for w, value in words.items())
        return f"CASE {text}{truth} ELSE {missing} END"
    if column["kind"] == "date":
        moment = f"REPLACE(REPLACE({text}, 'T', ' '), 'Z', '')"
        there, ordered = f"{text} LIKE '____-__-__%'", [(moment, _text(end)) for end in ends]
    else:
        there, ordered = f"{cell} BETWEEN -1e100 AND 1e100", [(cell, _real(end)) for end in ends]
    passed = "".join(f" WHEN {value} >= {end} THEN {len(ends) - at}" for at, (value, end) in enumerate(ordered[::-1]))
    return f"CASE WHEN {there} THEN {f'CASE{passed} ELSE 0 END' if passed else '0'} ELSE {missing} END"


def _case(code: str, values: Sequence[float]) -> str:
    """The value of a code, from 0 on."""
    listed = "".join(f" WHEN {at} THEN {_real(value)}" for at, value in enumerate(values))
    return f"CASE {code}{listed} END"


def _prediction(predicts: dict[str, Any]) -> str:
    if "bounds" in predicts:
        low, high = map(_real, predicts["bounds"])
        far = f"WHEN concord_score_0 < -7e2 THEN {low} WHEN concord_score_0 > 7e2 THEN {high}"  # where EXP may fail
        return f"CASE {far} ELSE {low} + ({high} - {low}) / (1e0 + EXP(-concord_score_0)) END"
    classes, thresholds = predicts["classes"], predicts["thresholds"][predicts["point"]]
    above = [f"concord_score_{at} - {_real(threshold)}" for at, threshold in enumerate(thresholds)]
    if len(thresholds) == 1:
        return f"CASE WHEN {above[0]} > 0e0 THEN {_text(classes[1])} ELSE {_text(classes[0])} END"
    best = "".join(
        f"\n  WHEN {' AND '.join(f'{score} >= {other}' for other in above if other != score)} THEN {_text(classes[at])}"
        for at, score in enumerate(above[:-1])
    )
    return f"CASE{best}\n  ELSE {_text(classes[-1])} END"


def _at_thresholds(predicts: dict[str, Any]) -> tuple[list[str], list[str]]:
    """With two classes, for each that has a threshold: a comment, and the column of predictions at that threshold."""
    comments, columns, classes = list[str](), list[str](), predicts.get("classes", ())
    named = predicts["at probabilities"]["classes"] if "at probabilities" in predicts and len(classes) == 2 else {}
    for name, least in named.items():
        at, score = classes.index(name), float(log_odds(least))
        column, class_name, other = f"concord_at_threshold_{at}", _text(name), _text(classes[1 - at])
        reached = f"concord_score_0 {'>=' if at else '<='} {_real(score if at else -score)}"
        comments.append(
            f"-- {column} names {_in_line(name)} from a probability of {least:g} on; prediction may never.\n"
        )
        columns.append(f"CASE WHEN {reached} THEN {class_name} ELSE {other} END AS {column}")
    return comments, columns


def _name(name: str) -> str:
    """A name, quoted."""
    return '"' + name.replace('"', '""') + '"'


def _in_line(name: str) -> str:
    """A name for a comment, which ends with its line."""
    return " ".join(_name(name).split())


def _text(text: str) -> str:
    """A text, quoted."""
    return "'" + str(text).replace("'", "''") + "'"


def _real(value: float) -> str:
    """A number that databases read as a double, with all its digits; in brackets if it is negative."""
    digits = repr(float(value))
    digits = digits if "e" in digits else f"{digits}e0"
    return f"({digits})" if digits.startswith("-") else digits
