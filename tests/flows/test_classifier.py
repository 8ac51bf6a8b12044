"""Classifier and regressor in scikit-learn's manner: its own checks of estimators, and what a fit costs."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import concord
from tests import world
from tests.support.pages import README
from tests.support.people import CLASSES, people
from tests.support.sentences import facts

SKIPPED = {"check_array_api_input", "check_pipeline_consistency"}
"""For one there must be another package; the other is for learners that draw no noise."""


class Unprotected:
    """In place of a run: what is learned without noise, in a moment, of classes or of a number."""

    def __init__(self, settings: dict[str, Any], private: pa.Table, **_: Any) -> None:
        rows, label = pl.DataFrame(private), settings["data"]["label"]
        X, bounds = rows.drop(label).fill_null(0).to_numpy(), settings["data"].get("bounds")
        if bounds:
            numbers = rows[label].cast(pl.Float64, strict=False).fill_nan(None).fill_null(sum(bounds) / 2)
            self.learned: Any = Ridge().fit(X, numbers.clip(*bounds).to_numpy())
        else:
            classes = settings["data"]["classes"]
            words = [word if word in classes else classes[0] for word in rows[label]]
            self.learned = (LogisticRegression(max_iter=1000) if len({*words}) > 1 else DummyClassifier()).fit(X, words)
            self.classes_ = self.learned.classes_
        self.student = self

    def predict(self, rows: pa.Table) -> Any:
        return self.learned.predict(pl.DataFrame(rows).fill_null(0).to_numpy())

    def predict_proba(self, rows: pa.Table) -> Any:
        return self.learned.predict_proba(pl.DataFrame(rows).fill_null(0).to_numpy())


class Told(world.ConcordClassifier):
    """One to which a check's own rows are public, and the classes of its labels are known."""

    def fit(self, X: Any, y: Any, *, public: Any = None) -> Any:
        self.known_ = [] if y is None else np.unique(np.asarray(y)).tolist()
        self.known_ += [each for each in (0, 1) if len(self.known_) < 2 and each not in self.known_]
        return super().fit(X, y, public=X if public is None else public)

    def _tables(self) -> dict[str, Any]:
        return world.PlanFacts(label="label", classes=self.known_, domain="checks", rows=100).frame_plan(Path("none"))

    def _target(self, y: Any, tables: dict[str, Any]) -> pl.Series:
        return super()._target(y, {"data": {**tables["data"], "classes": self.known_}})


class ToldNumber(world.ConcordRegressor):
    """One to which a check's own rows are public, and bounds that hold all labels of checks."""

    def fit(self, X: Any, y: Any, *, public: Any = None) -> Any:
        return super().fit(X, y, public=X if public is None else public)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Runs learn without protection; what they were asked."""
    found: list[dict[str, Any]] = []

    def run(settings: dict[str, Any], private: pa.Table, **named: Any) -> Unprotected:
        found.append({**named, "settings": settings, "private": private})
        return Unprotected(settings, private)

    monkeypatch.setattr(concord, "run", run)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("model", "contrary", "passing"),
    [
        (Told(rows=100), world.CONTRARY, 40),
        (ToldNumber(bounds=[-1e4, 1e4], rows=100), world.CONTRARY_OF_NUMBERS, 35),
    ],
)
def test_scikit_learns_checks_pass_but_for_those_that_privacy_forbids(
    model: Any, contrary: Iterable[str], passing: int
) -> None:
    results = check_estimator(model, on_fail=None)
    by_status: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for each in results:
        by_status[each["status"]].add(each["check_name"])
    assert by_status["failed"] == {*contrary}
    assert by_status["skipped"] <= SKIPPED
    assert len(by_status["passed"]) > passing


ONE = np.ones((1, 1))


def test_what_a_fit_needs_is_said_without_a_private_value() -> None:
    model = world.ConcordClassifier(classes=CLASSES, rows=100)
    with pytest.raises(world.WrongInput, match=facts("public=:", "X")):
        model.fit(ONE, ["no"])
    with pytest.raises(world.WrongInput, match=facts("classes", "bounds", "rows")):
        world.ConcordClassifier().fit(ONE, ["no"], public=[[1.0]])
    with pytest.raises(world.WrongInput, match=facts("array of numbers", "frame", "dtype")) as failed:
        model.fit(np.array([["secret"]], dtype=object), ["no"], public=[[1.0]])
    assert "secret" not in str(failed.value)
    for X, y in (
        (np.array([777.5, 888.5]), ["no", "yes"]),
        (np.array([[777.5 + 1j], [2]]), ["no", "yes"]),
        (np.zeros((2, 1)), np.array([777.5 + 1j, 1])),
        ([[777.5], [2]], ["no", "yes"]),
        (np.zeros((2, 1)), {777.5: "no"}),
    ):
        with pytest.raises((ValueError, world.WrongInput), match=r"Reshape|Complex|must be") as wrong:
            model.fit(X, y, public=[[1.0]])
        assert "777" not in str(wrong.value)
    with pytest.raises(world.WrongInput, match=facts("X", "'label'", "another name")):
        model.fit(pl.DataFrame({"label": [1.0]}), ["no"], public=pl.DataFrame({"label": [1.0]}))
    with pytest.raises(world.WrongInput, match=facts("data.classes", "data.bounds")):
        world.ConcordClassifier({"data": {"label": "cost", "bounds": [0, 1]}}).fit(ONE, [0.5], public=[[1.0]])


def test_a_label_of_any_kind_is_a_word_a_number_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord, "run", lambda _, private, **__: SimpleNamespace(student=None, private=private))
    words, numbers = np.empty(7, dtype=object), np.empty(5, dtype=object)
    words[:] = ["no", 1.0, ["no"], {}, "\ud800", None, object()]
    numbers[:] = [1, 2.5, "x", None, ["3"]]
    of_words = world.ConcordClassifier(classes=["no", 1], rows=100)
    of_numbers = world.ConcordRegressor(bounds=[0, 9], rows=100)
    cases: list[tuple[Any, Any, list[Any]]] = [
        (of_words, words, ["no", "1", None, None, "\\ud800", None, None]),
        (of_numbers, numbers, [1.0, 2.5, None, None, None]),
        (of_numbers, [1, 99], [1.0, 99.0]),
    ]
    for model, labels, read in cases:
        run: Any = model.fit(np.zeros((len(read), 1)), labels, public=[[1.0]]).run_
        assert run.private["label"].to_pylist() == read
    with pytest.raises(world.WrongInput, match=facts("data.bounds")):
        world.ConcordRegressor({"data": {"label": "cost", "classes": ["a", "b"]}}).fit(ONE, [0.5], public=[[1.0]])
    with pytest.raises(world.WrongInput, match=facts("classes", "bounds", "rows")):
        world.ConcordRegressor().fit(ONE, [0.5], public=[[1.0]])


MODEL = world.ConcordClassifier(classes=CLASSES, rows=100)
SCALED = make_pipeline(StandardScaler(), MODEL)
AROUND: dict[str, Any] = {
    "Pipeline": Pipeline([("scale", StandardScaler()), ("learn", MODEL)]),
    "make_pipeline": SCALED,
    "a pipeline with passthrough": make_pipeline("passthrough", Normalizer(), PCA(1), MODEL),
    "a pipeline around a pipeline": make_pipeline(StandardScaler(), make_pipeline(Normalizer(), MODEL)),
    "a pipeline in a pipeline": make_pipeline(Normalizer(), SCALED),
    "columns": make_pipeline(ColumnTransformer([("scale", StandardScaler(), [0])]), MODEL),
    "search": GridSearchCV(SCALED, {"concordclassifier__epsilon": [1.0]}, cv=2, error_score="raise"),
    "search by workers": GridSearchCV(
        SCALED, {"concordclassifier__epsilon": [1.0]}, cv=2, n_jobs=2, error_score="raise"
    ),
    "ensemble": BaggingClassifier(MODEL, 2),
    "ensemble by workers": StackingClassifier([("one", MODEL)], n_jobs=2),
    "a number's transformer": TransformedTargetRegressor(
        world.ConcordRegressor(bounds=[0, 1], rows=9), transformer=PCA(1)
    ),
}


@pytest.mark.filterwarnings("ignore:each fit of a clone")
@pytest.mark.parametrize("around", AROUND)
def test_what_learns_from_private_rows_around_a_fit_is_refused(around: str) -> None:
    """Before, a StandardScaler fitted on all private rows moved the sums by millions of times what was paid for."""
    X, y = np.random.default_rng(1).normal(size=(40, 2)), np.array([0.0, 1.0] * 20)
    with pytest.raises(world.WrongInput, match=facts("fitted alone", "ε does not cover")):
        AROUND[around].fit(X, y)


@pytest.mark.filterwarnings("ignore:each fit of a clone")
@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("asked")
def test_steps_without_a_fit_may_stand_before_it(n_jobs: int) -> None:
    X, y = np.random.default_rng(1).normal(size=(40, 2)), ["no", "yes"] * 20
    steps = make_pipeline(FunctionTransformer(), "passthrough", make_pipeline(Normalizer(), MODEL))
    assert steps.fit(X, y, pipeline__concordclassifier__public=X).predict(X).shape == (40,)
    search = GridSearchCV(
        steps, {"pipeline__concordclassifier__epsilon": [1.0]}, cv=2, n_jobs=n_jobs, error_score="raise"
    )
    with pytest.raises(world.WrongInput, match="public=:"):  # which is asked after what stands around it
        search.fit(X, y)


def test_cross_validation_runs_as_its_messages_and_the_readme_say(asked: list[dict[str, Any]]) -> None:
    """Before, no page and no message named the argument that it needs."""
    named = {"X": np.random.default_rng(1).normal(size=(40, 2)), "y": ["no", "yes"] * 20, "rows": np.zeros((3, 2))}
    call = 'cross_val_score(model, X, y, params={"public": rows})'
    assert call in README.replace("\n", " ")
    assert "new_session=True" in README
    assert "exact figures that ε does not cover" in README.replace("\n", " ")
    model = world.ConcordClassifier(classes=CLASSES, rows=100, new_session=True)
    warned = facts(
        "cross-validation", "once for each fold", "new_session=True", "params={'public': rows}", "best_params_"
    )
    with pytest.warns(UserWarning, match=warned):
        scores = eval(call, {"cross_val_score": cross_val_score, "model": model, **named})
    assert len(scores) == len(asked) == 5
    assert all(len(fit["public"]) == 3 and fit["new_session"] for fit in asked)
    with pytest.raises(world.WrongInput, match=r"params=\{'public': rows\}"):
        model.fit(named["X"], named["y"])


def test_candidates_of_a_search_share_one_lifetime(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    """Before, each candidate for ε named another lifetime, so all fits but one failed, and the search chose among
    these."""

    def lifetimes() -> list[dict[str, float]]:
        return [fit["settings"]["privacy"]["lifetime"] for fit in asked]

    X, y = np.random.default_rng(1).normal(size=(40, 2)), ["no", "yes"] * 20
    known: dict[str, Any] = {"classes": CLASSES, "rows": 100, "domain": "ward", "home": tmp_path}
    stated = world.ConcordClassifier(**known, lifetime_epsilon=30.0, lifetime_delta=1e-3)
    with pytest.warns(UserWarning, match="charged"):
        GridSearchCV(stated, {"epsilon": [0.5, 1.0]}, cv=2).fit(X, y, public=X)
    assert lifetimes() == [{"epsilon": 30.0, "delta": 1e-3}] * 5
    world.Ledger.of(tmp_path).name_domain(
        "ward", unit="one row", neighbours=world.NEIGHBOURS["rows"], epsilon=7.0, delta=1e-4
    )
    for epsilon in (0.5, 1.0):
        world.ConcordClassifier(**known, epsilon=epsilon).fit(X, y, public=X)
    world.ConcordClassifier(**known, lifetime_epsilon=8.0).fit(X, y, public=X)  # which the ledger refuses to a run
    assert [each["epsilon"] for each in lifetimes()[5:]] == [7.0, 7.0, 8.0]
    assert {each["delta"] for each in lifetimes()[5:]} == {1e-4}
    world.ConcordClassifier(**known | {"domain": "other"}, epsilon=0.5).fit(X, y, public=X)
    assert lifetimes()[-1]["epsilon"] == 2.0


def test_a_class_that_no_released_label_names_has_no_probability() -> None:
    """It was not in the student's list, and every predict_proba ended in a ValueError."""
    X = np.array([[-1.0], [1.0]])
    model = concord.ConcordClassifier(classes=["no", "rare", "yes"], rows=2)
    model.n_features_in_, model.classes_ = 1, np.array(["no", "rare", "yes"])
    learned = LogisticRegression().fit(X, np.array(["yes", "no"]))
    model.student_ = make_pipeline(FunctionTransformer(lambda rows: rows["x0"].to_numpy()[:, None]), learned)
    assert model.predict(X).tolist() == ["yes", "no"]
    odds = model.predict_proba(X)
    assert odds[:, 1].tolist() == [0, 0]
    assert odds[:, [0, 2]].tolist() == learned.predict_proba(X).tolist()


def test_all_that_a_frame_lacks_is_named_at_once() -> None:
    frame = people(10, 1)
    given: dict[str, Any] = {"label": "outcome", "classes": CLASSES, "domain": "people", "rows": 10, "public": frame}
    for name, value in given.items():
        lacking = {"classes": "classes or bounds", "public": "public or schema"}.get(name, name)
        rest = {key: each for key, each in given.items() if key != name}
        with pytest.raises(world.WrongInput, match=rf": {lacking} missing$"):
            concord.run(frame, **rest)
        with pytest.raises(world.WrongInput) as refused:
            concord.run(frame, **({} if name == "public" else {name: value}), wrong=1)
        assert str(refused.value).endswith("; wrong not known")
        others = {"classes or bounds" if key == "classes" else key for key in rest}
        assert set(str(refused.value).partition(": ")[2].partition(" missing")[0].split(", ")) >= others - {"public"}

    for odd in ("no", {*CLASSES}):  # the letters of a word were charged for; each process orders a set in its own way
        with pytest.raises(world.WrongInput, match="classes must be a list of all labels"):
            concord.run(frame, **given | {"classes": odd})
    with pytest.raises(world.WrongInput, match="must not both be given"):
        concord.run(frame, **given, bounds=(0, 1))
    with pytest.raises(world.WrongInput, match="label must be given in the plan"):
        concord.run("plan.toml", label="outcome")


@pytest.fixture
def frames(home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pl.DataFrame, pl.Series, pl.DataFrame]:
    """Private rows, their labels, and public rows."""
    monkeypatch.setenv("CONCORD_HOME", str(home))
    private = people(4000, 1).drop("person")
    return private.drop("outcome"), private["outcome"], people(300, 2).drop("person", "outcome")


@pytest.mark.slow
def test_each_fit_is_a_session_and_the_same_one_again_is_free(
    frames: tuple[pl.DataFrame, pl.Series, pl.DataFrame], home: Path
) -> None:
    X, y, public = frames[0].to_pandas(), frames[1].to_numpy(), frames[2].to_arrow()
    known: dict[str, Any] = {"classes": CLASSES, "domain": "people", "rows": 4000, "epsilon": 2.0}
    model = world.ConcordClassifier(**known).fit(X, y, public=public)
    test = people(500, 5)
    rows, truth = test.drop("person", "outcome"), test["outcome"].to_numpy()
    assert model.score(rows, truth) > 0.8
    assert model.classes_.tolist() == CLASSES
    odds = model.predict_proba(rows.to_arrow())
    assert model.classes_[odds.argmax(axis=1)].tolist() == model.predict(rows.to_pandas()).tolist()
    again = world.ConcordClassifier(**known).fit(X, y, public=public)
    assert again.run_.session == model.run_.session
    assert again.run_.summary.spent_now["epsilon"] == 0
    with pytest.raises(world.NotVerified, match="changed while"):
        world.ConcordClassifier(**known).fit(X[:3000], y[:3000], public=public)
    with pytest.raises(world.BudgetRefused, match="new-session"):
        world.ConcordClassifier(**known, version="2").fit(X[:3000], y[:3000], public=public)
    less = known | {"epsilon": 1.0}  # under the lifetime on record, four times the first session's budget
    further = world.ConcordClassifier(**less, version="2", new_session=True).fit(X[:3000], y[:3000], public=public)
    assert further.run_.summary.spent_now["epsilon"] > 0
    assert len(world.Ledger.of(home).sessions("people")) == 2


@pytest.mark.slow
def test_the_commands_from_python(frames: tuple[pl.DataFrame, pl.Series, pl.DataFrame], tmp_path: Path) -> None:
    X, y, public = frames
    known: dict[str, Any] = {"label": "outcome", "classes": CLASSES, "domain": "people", "rows": 4000}
    done = concord.run(X.with_columns(y.alias("outcome")), public=public, **known)
    assert done.certificate.guarantee.epsilon == 1.0
    (domain,) = concord.budget()["domains"]
    assert [session["id"] for session in domain["sessions"]] == [done.session]
    assert concord.verify(done.session)["ok"]
    rows = public.with_row_index("who").to_arrow()
    found = concord.predict(done.session, rows, key="who", threshold="yes=0.2")
    assert found.columns == ["who", "class", "probability no", "probability yes"]
    assert ((found["class"] == "yes") == (found["probability yes"] >= 0.2)).all()
    with pytest.raises(world.WrongInput, match="at least one row"):  # it blamed the student's file
        concord.predict(done.session, rows.slice(0, 0))
    assert "student.skops" in concord.export(done.session, tmp_path / "model")
    X.with_columns(y.alias("outcome")).write_parquet(tmp_path / "private.parquet")
    public.write_parquet(tmp_path / "public.parquet")
    tables = {name: str(tmp_path / f"{name}.parquet") for name in ("private", "public")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begun = concord.init(tmp_path / "plan.toml", **tables, **{**known, "domain": "others"})
    assert concord.plan(begun["plan"])["mechanisms"][0]["name"] == begun["mechanism"] == "tallies"
