"""scikit-learn's manner: a classifier or a regressor whose every `fit` is a session, which is charged and certified.

    model = concord.ConcordClassifier(classes=["no", "yes"], domain="ward", rows=26000)
    model.fit(X, y, public=rows).predict(rows)

A `fit` is `concord.run` on a plan made from the parameters, with the same door, ledger and home: a second `fit` on the
same data is answered from the ledger. One on other data of the domain needs another `version`, and is refused unless
`new_session`. `X` and `y` are private; an error never shows a value of theirs.

Guarantees   what a label or a cell becomes does not depend on those beside it: X has a type, and each label of y is
             read by itself (tasks.data.frames). What is refused is refused by the type of its container

Not covered  what other estimators learned from X before `fit`, unless they call it (`check_alone`); scores of private
             rows; what scikit-learn asks and privacy forbids, which CONTRARY lists with reasons. Checked by
             tests/flows/test_classifier.py, by scikit-learn's own checks among others
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

import concord
from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan, read_tables
from concord.artifacts.settings import Settings
from concord.tasks.advice.draft import PlanFacts
from concord.tasks.data.cells import canonical_id, cast_numbers, class_names, text
from concord.tasks.data.frames import column_of, frame_table
from concord.tasks.units.identifiers import word_of

LABEL = "label"
"""The label column of a plan that names none."""
CONTRARY = {
    "check_classifiers_regression_target": "private labels never stop a fit: one that is no class counts as the first",
    "check_supervised_y_no_nan": "as above",
    "check_dtype_object": "whether every cell of an array of objects is a number is private: such an array is refused",
    "check_classifiers_train": "as above: it also fits rows that are lists, for which NumPy would choose a type",
}
"""scikit-learn's checks of the classifier that fail, because privacy forbids what they require."""
CONTRARY_OF_NUMBERS = {
    "check_supervised_y_no_nan": "private labels never stop a fit: one that is no number counts as the middle",
    "check_dtype_object": CONTRARY["check_dtype_object"],
    "check_regressors_train": CONTRARY["check_classifiers_train"],
}
"""As CONTRARY, for the regressor."""
COLUMN = "A column-vector y was passed when a 1d array was expected: it is taken as one column"
COSTS = (
    "each fit of a clone is a session of its own and is charged: cross-validation and grids cost once for each fold "
    "and candidate. It needs new_session=True, and public rows by params={'public': rows}. Scores of private rows and "
    "best_params_, which they choose, are exact figures that ε does not cover: publish neither. To measure a student, "
    "use public labelled rows, or [test] of a plan"
)


@dataclass(eq=False, repr=False)
class _Learner(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """What classifier and regressor have in common: rows in, a session, a student out."""

    plan: Any = None
    _: KW_ONLY
    domain: str = "classifier"
    rows: int | None = None
    epsilon: float = 1.0
    delta: float | None = None
    unit: str | None = None
    version: str = "1"
    schema: Any = None
    lifetime_epsilon: float | None = None
    lifetime_delta: float | None = None
    home: Any = None
    new_session: bool = False

    @abstractmethod
    def _target(self, y: Any, tables: dict[str, Any]) -> pl.Series:
        """Private labels as a column, each read by itself. Their values cannot make it fail."""

    def fit(self, X: Any, y: Any, *, public: Any = None) -> Self:
        """Learn from private rows X and labels y, and publish.

        X        a frame (polars, pandas, Arrow) or an array (rows, columns) of numbers; with the column of `unit`, if
                 there is one
        y        an array, a series or a list (rows,): an unknown class counts as the first one, a missing number as the
                 midpoint of the bounds
        public   rows like X, which are public: labelled and published; none if there is a schema
        Raises a ConcordError, such as BudgetRefused if the domain does not cover it; WrongInput in a pipeline with a
        step that learns from X.
        """
        check_alone(self)
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None: it has the private labels")
        rows = self._rows(X, reset=True)
        declared = self.schema if self.plan is None else self._tables()["data"].get("schema")
        if public is None and declared is None:
            raise WrongInput(
                "fit must be given public=: rows like X that may be published, without labels; or the learner be "
                "given a schema. cross_val_score passes rows on by params={'public': rows}"
            )
        tables = self._tables()
        target, label = self._target(y, tables), tables["data"]["label"]
        check_consistent_length(rows, target)
        if getattr(y, "ndim", 1) == 2:
            warnings.warn(COLUMN, DataConversionWarning, stacklevel=2)
        if label in rows.column_names:
            raise WrongInput(f"X must not have a column {label!r}, which the plan calls y: give it another name")
        self.run_ = concord.run(
            tables,
            private=rows.append_column(label, target.to_arrow()),
            public=None if public is None else self._rows(public),
            home=self.home,
            new_session=self.new_session,
        )
        self.student_ = self.run_.student
        return self

    def _tables(self) -> dict[str, Any]:
        """The plan's tables. Raises WrongInput if there is no plan and something that cannot be guessed is missing."""
        if isinstance(self.plan, Plan):
            return {**self.plan.model_dump(exclude_unset=True), "folder": self.plan.folder}
        if self.plan is not None:
            return dict(self.plan) if isinstance(self.plan, dict) else read_tables(Path(self.plan))
        given = {name: getattr(self, name, None) for name in ("classes", "bounds")}
        target = {name: value for name, value in given.items() if value is not None}
        if not target or self.rows is None:
            raise WrongInput("classes, or bounds, and rows must be given, as known in public, or a plan that has them")
        names = {field.name for field in fields(PlanFacts)} - {"label", "classes", "bounds"}
        stated = {name: getattr(self, name) for name in names}
        return PlanFacts(label=LABEL, **target, **stated).frame_plan(Path(self.home or Settings.now().home))

    def _rows(self, X: Any, *, reset: bool = False) -> pa.Table:
        """Rows as a table. Their names and number of columns are those of `fit`, unless `reset`: then they are private,
        and NumPy must not choose a type for a list of them."""
        if hasattr(X, "__arrow_c_stream__") or hasattr(X, "iloc"):
            table = frame_table(X, "X")
            if reset:
                self.feature_names_in_ = np.array(table.column_names, dtype=object)
                self.n_features_in_ = table.num_columns
            return table
        if reset and not (hasattr(X, "__array__") or hasattr(X, "toarray")):
            kind = type(X).__name__
            raise WrongInput(f"X must be a frame or an array of numbers, which say the type of a column, got a {kind}")
        if not hasattr(X, "toarray"):  # scikit-learn's own sentences hold the array
            array = np.asarray(X)
            if array.ndim < 2:
                raise ValueError(
                    f"X must have rows and columns, got an array of {array.ndim} dimensions. Reshape your data"
                )
            if array.dtype.kind == "c":
                raise ValueError("Complex data not supported: X must hold numbers")
            if array.dtype.kind in "OUSV":
                raise WrongInput(f"X must be an array of numbers, or a frame, got an array of dtype {array.dtype}")
        with np.errstate(all="ignore"):
            numbers = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        names = [f"x{at}" for at in range(numbers.shape[1])]
        return pl.DataFrame(numbers, schema=names).fill_nan(None).to_arrow()

    def __sklearn_clone__(self) -> Any:
        check_alone(self)  # here too: an ensemble copies its members where it stands, and may fit them elsewhere
        warnings.warn(COSTS, UserWarning, stacklevel=3)
        return super().__sklearn_clone__()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class ConcordClassifier(ClassifierMixin, _Learner):  # type: ignore[misc]  # scikit-learn is untyped
    """A classifier that is learned under differential privacy. In a pipeline, steps before it must have no `fit`.

    plan          a plan, its path, or its tables; the next parameters describe a plan if none is given
    classes       all labels, as publicly known
    domain        the name of this body of private data, which is published
    rows, epsilon, delta, unit, version, schema, lifetime_epsilon, lifetime_delta
                  the keywords of `concord.init`; a search over ε needs the lifetime of all its sessions
    home          the home folder; default: CONCORD_HOME, or .concord
    new_session   whether `fit` may open a further session in the domain, which costs again

    After `fit` it has `classes_`, `n_features_in_`, and `feature_names_in_` of a frame; `run_`, with certificate,
    report and session; and `student_`, which is published and needs no Concord.
    """

    classes: Any = None

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes (rows,). Free."""
        check_is_fitted(self)
        by_word = {str(name): at for at, name in enumerate(self.classes_)}
        predicted = self.student_.predict(self._rows(X))
        return np.asarray(self.classes_[[by_word[str(word)] for word in predicted]])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (rows, classes), in the order of `classes_`; 0 of one that no released label names. Free."""
        check_is_fitted(self)
        words = [str(name) for name in self.classes_]
        odds = np.asarray(self.student_.predict_proba(self._rows(X)))
        of_all = np.zeros((len(odds), len(words)))
        of_all[:, [words.index(str(word)) for word in self.student_.classes_]] = odds
        return of_all

    def _target(self, y: Any, tables: dict[str, Any]) -> pl.Series:
        classes = tables["data"].get("classes") if self.classes is None else self.classes
        if classes is None:
            raise WrongInput("data.classes must be given in the plan: a classifier learns no number within data.bounds")
        self.classes_ = np.unique(np.asarray(list(classes)))
        labels = column_of(y, "y")
        declared = pl.col("c").replace_strict(_names_of(classes), default=None, return_dtype=pl.String())
        words = (
            labels.alias("c")
            .to_frame()
            .with_columns(canonical_id("c", labels.dtype).alias("c"), text("c", labels.dtype).alias("word"))
        )
        return words.select(pl.coalesce(declared, "word")).to_series()


@dataclass(eq=False, repr=False, kw_only=True)
class ConcordRegressor(RegressorMixin, _Learner):  # type: ignore[misc]  # scikit-learn is untyped
    """A regressor that is learned under differential privacy; its parameters are those of ConcordClassifier.

    bounds   smallest and largest value of y, as publicly known; values beyond are clipped to the nearer bound
    """

    bounds: Any = None
    domain: str = "regressor"

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Numbers (rows,) within the bounds. Free."""
        check_is_fitted(self)
        return np.asarray(self.student_.predict(self._rows(X)), dtype=np.float64)

    def _target(self, y: Any, tables: dict[str, Any]) -> pl.Series:
        if tables["data"].get("bounds") is None:
            raise WrongInput("data.bounds must be given in the plan: a regressor learns no classes")
        return pl.Series(cast_numbers(column_of(y, "y", _number_word), np.inf)).fill_nan(None)


def check_alone(learner: BaseEstimator) -> None:
    """Raise WrongInput if an estimator that fits or copies this one learns from its private rows too, without noise.

    scikit-learn tells no estimator where it stands, so the callers are looked through for methods of another one.
    joblib sends whole pipelines to its workers: those are among the callers there too. A pipeline may have steps that
    need no fit, by their tag; whether a FunctionTransformer's function reads each row alone is not seen. A search may
    choose among candidates, of which COSTS warns.
    """
    frame = inspect.currentframe()
    while frame is not None:
        outer, frame = frame.f_locals.get("self"), frame.f_back
        if (
            not isinstance(outer, BaseEstimator)
            or outer is learner
            or isinstance(outer, GridSearchCV | RandomizedSearchCV)
        ):
            continue
        learns = [outer]
        if isinstance(outer, Pipeline):
            steps = [step for _, step in outer.steps[:-1] if step is not None and step != "passthrough"]
            learns = [step for step in steps if not hasattr(step, "__sklearn_tags__") or get_tags(step).requires_fit]
        if learns:
            raise WrongInput(
                f"a {type(learner).__name__} must be fitted alone: {type(learns[0]).__name__} around it or before it "
                "learns from private rows too, which ε does not cover. Leave it out: columns are scaled and encoded "
                "within, or use a step that needs no fit, such as FunctionTransformer"
            )


def _names_of(classes: Sequence[Any]) -> dict[str, str]:
    """The plan's names of classes, by the canonical text of each label. Truth values are also 1 and 0."""
    names = [str(name) for name in classes]
    texts = class_names(tuple(word_of(name) or str(name) for name in classes))
    alike = {"true": "1", "1": "true", "false": "0", "0": "false"}
    also = {alike[one]: name for one, name in zip(texts, names, strict=True) if one in alike}
    return also | dict(zip(texts, names, strict=True))


def _number_word(label: Any) -> str | None:
    """An object as the word of a number, if it is one, or as it reads. It cannot fail."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, bool | float):
        return float.__repr__(float(plain))
    return word_of(label)
