"""Fitted: the values in a student's file by which texts are written and rows are read, checked as it is loaded.

Which types a file may hold is checked before (tasks.student.trust). A stranger's file may give them any values: a text
for the size of a list, say, which became a part of the program that `concord export` writes.

Guarantees   the classes (if any), columns, words, numbers and sizes of a loaded student are plain values of their type,
             numbers finite and sizes bounded; whatever else its file makes fail is one error
Not covered  whether they make sense: a stranger's student may answer anything, or take long
             Checked by tests/tasks/student/test_trust.py
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from concord.artifacts.errors import ConcordError, NotVerified
from concord.artifacts.sections import LONGEST_CLASS
from concord.tasks.data.concord_student import DATE_PARTS, READ, Cells, Chosen, ScoreClassifier, Spelled
from concord.tasks.student.concord_tallied import POINTS, Code, Pairs, Tallied, TalliedNumber

Rule = Callable[[Any], bool]

LARGEST_SIZE = 2**24
"""Most numbers in a list of a row, and most columns that words of free text are hashed to."""
LARGEST_START = 2**31
"""More codes than there are."""


@contextmanager
def strangers() -> Iterator[None]:
    """Within the context, whatever a student's file makes fail is one error of ours, without its words."""
    try:
        yield
    except ConcordError:
        raise
    except Exception as failed:  # the author of the file may have intended it
        raise NotVerified(f"the student's file is not one that Concord writes ({type(failed).__name__})") from None


def check_fitted(student: Any) -> None:
    """Raise NotVerified, naming part and value, unless the values that texts are written by are what they must be."""
    for part in parts_of(student):
        rules = WHOLE if part is student and isinstance(part, Pipeline) else RULES.get(type(part), {})
        for name, holds in rules.items():
            if not holds(getattr(part, name, None)):
                raise NotVerified(f"the student's {type(part).__name__} has a {name} that Concord never writes")


def parts_of(student: Any) -> Iterator[Any]:
    """The student, its steps, and those of the pipelines by which it reads columns."""
    yield student
    for step in student if isinstance(student, Pipeline) else ():
        yield step
        for _, columns, _ in step.transformers_ if isinstance(step, ColumnTransformer) else ():
            yield from columns if isinstance(columns, Pipeline) else ()


def _text(value: Any) -> bool:
    return type(value) is str


def _listed(value: Any) -> list[Any] | None:
    """The items of a list, a tuple or an array; None of anything else."""
    if isinstance(value, np.ndarray):
        return list(value.tolist()) if value.ndim else None
    return list(value) if type(value) in (list, tuple) else None


def _texts(value: Any) -> bool:
    items = _listed(value)
    return items is not None and all(map(_text, items))


def _names(value: Any) -> bool:
    items = _listed(value)
    return items is not None and _texts(items) and len({name[:LONGEST_CLASS] for name in items}) == len(items) > 0


def _numbers(value: Any) -> bool:
    """Finite numbers, or lists of them, however deep."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return bool(np.isfinite(value).all())
    items = _listed(value)
    return type(value) in (int, float) and math.isfinite(value) if items is None else all(map(_numbers, items))


def _between(least: int, most: int) -> Rule:
    return lambda value: type(value) is int and least <= value <= most


def _one_of(known: Iterable[str]) -> Rule:
    return lambda value: _text(value) and value in known


def _by_name(value: Any) -> bool:
    """Parts that read columns by their names, each beginning with clean cells."""
    parts = [(part, names) for _, part, names in value if isinstance(part, Pipeline)]
    return all(type(names) is list and _texts(names) and type(part[0]) in (Cells, Spelled) for part, names in parts)


def _categories(value: Any) -> bool:
    return len(value) == 1 and (_texts(value[0]) or _numbers(value[0]))


WHOLE: dict[str, Rule] = {"classes_": lambda value: value is None or _names(value), "feature_names_in_": _names}
OF_CELLS: dict[str, Rule] = {
    "kind": _one_of((*READ, "hashed", "uint8", "float32")),
    "size": _between(1, LARGEST_SIZE),
}
RULES: dict[type, dict[str, Rule]] = {
    ColumnTransformer: {"transformers_": _by_name},
    Cells: OF_CELLS,
    Spelled: {
        **OF_CELLS,
        "absent": lambda value: all(_text(part) or _numbers(part) for part in value),
        **dict.fromkeys(("true", "false"), _texts),
        "dates": lambda value: _text(value) and {*re.findall("%(.)", value)} <= DATE_PARTS.keys(),
    },
    SimpleImputer: {"statistics_": lambda value: _texts(value) or _numbers(value)},
    OneHotEncoder: {"categories_": _categories},
    OrdinalEncoder: {"categories_": _categories},
    HashingVectorizer: {"n_features": _between(1, LARGEST_SIZE)},
    Code: {
        "start": _between(0, LARGEST_START),
        "cuts": lambda value: value is None or _numbers(value),
        "words": _texts,
        "others": _texts,
    },
    Pairs: dict.fromkeys(("both", "added"), _numbers),
    Tallied: {
        **dict.fromkeys(("weights", "intercept", "prior"), _numbers),
        "classes": _names,
        "point": _one_of(POINTS),
    },
    TalliedNumber: dict.fromkeys(("weights", "intercept", "low", "high"), _numbers),
    Chosen: {"hypothesis": _text, "classes": _names},
    ScoreClassifier: {"classes": _names},
}
"""What the values of a whole student, and of each part, must be."""
