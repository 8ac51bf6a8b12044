"""The sections of the plan that learn: teachers, hypothesis classes and the student.

An estimator is any class with fit and predict, by its dotted name. Keys are described as in `artifacts.sections`.
"""

import importlib
import inspect
import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from concord.artifacts.errors import WrongInput
from concord.artifacts.sections import OPERATOR, Epsilon, Names, Section, in_units, near


class Learner(Section):
    """Any estimator with fit and predict, by its dotted name, and its parameters."""

    estimator: str = "sklearn.linear_model.LogisticRegression"
    """A class by its full name. It is code, and runs with your rights."""
    params: dict[str, Any] = Field(default={})
    """The parameters of the estimator."""

    @model_validator(mode="after")
    def can_be_built(self) -> Self:
        try:
            if {"estimator", "params"} & self.model_fields_set:  # the default can; to load its package takes a second
                self.build()
        except WrongInput as wrong:
            raise ValueError(str(wrong)) from None
        return self

    def build(self, **more: Any) -> Any:
        """A fresh, unfitted estimator. Raises WrongInput if the name or a parameter is wrong."""
        module, _, name = self.estimator.rpartition(".")
        try:
            made = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            rule = "estimator must be a class by its full name, such as sklearn.linear_model.LogisticRegression"
            raise WrongInput(f"{rule}, got {self.estimator!r}, which cannot be imported") from None
        if not all(callable(getattr(made, method, None)) for method in ("fit", "predict")):
            raise WrongInput(f"estimator must have fit and predict, got {self.estimator!r}")
        names = list(inspect.signature(made).parameters)
        for key in self.params:
            if key not in names:
                raise WrongInput(f"params holds {key!r}, which {self.estimator} does not take{near(key, names)}")
        try:
            return made(**{key: value for key, value in more.items() if key in names} | self.params)
        except (TypeError, ValueError) as wrong:
            raise WrongInput(f"params cannot build {self.estimator}: {wrong}") from None


class TeachersPlan(Learner):
    """The number of shards of the private rows, and the estimator that is trained on each."""

    count: Annotated[int, Field(ge=0, le=100_000), in_units("teachers")] = 0
    """The number of teachers. With more teachers, noise matters less, but each teacher is weaker: a shard needs a few
    dozen rows. Tallies have no teachers."""
    runner: Annotated[Literal["threads", "dask"], OPERATOR] = "threads"
    """Where teachers are trained and vote; for tallies, where private rows are encoded and counted."""
    address: Annotated[str | None, OPERATOR] = None
    """The address of a Dask cluster that shares the home folder, tls://HOST:PORT; by default one is started on this
    machine."""
    block: Annotated[int, Field(ge=1), in_units("teachers"), OPERATOR] = 50
    """Teachers that one task trains: some ten seconds of work."""

    @model_validator(mode="after")
    def address_is_of_dask(self) -> Self:
        if self.address is not None and self.runner != "dask":
            raise ValueError(f"address belongs to runner = 'dask', got runner = {self.runner!r}")
        if self.address is not None and not re.fullmatch(r"tls://(\[[\da-fA-F:]+\]|[\w.-]+):\d{1,5}", self.address):
            host = self.address.rpartition("@")[2]  # without a password
            raise ValueError(f"address must be tls://HOST:PORT, got {host!r}")
        return self


class HypothesesPlan(Section):
    """A class of hypotheses that can be enumerated, and its columns."""

    hypotheses: str
    """stumps or rectangles."""
    features: Names | None = None
    """The encoded columns of the class, written COLUMN or COLUMN=CATEGORY; by default all."""


class RelabelPlan(HypothesesPlan):
    """Relabelling before teaching (Nandi & Bassily 2020): one hypothesis relabels a secret subset of the units. It is
    chosen privately, at an ε of 1 on that subset, among all hypotheses of the class."""

    hypotheses: str = "stumps"
    """stumps or rectangles."""
    share: Annotated[float, Field(gt=0, le=1), in_units("share of units")] | None = None
    """The probability that a unit is in the subset. By default, it leaves the mechanism an ε of about 1."""


class StudentPlan(Learner):
    """The published model."""

    refused: Literal["random", "drop", "soft", "published"] = "random"
    """How the student uses refused rows: `random` draws a class for each, `drop` leaves them out, `soft` takes the
    shares of the classes from released counts. Rows that were not queried are left out; with `published`, as in the
    paper, they get a random class, too."""
    learner: Literal["fitted", "universal", "linear"] = "fitted"
    """How the student is made: `fitted` to released labels; `universal`, a hypothesis chosen on the private rows; or
    `linear`, the model decoded from tallies. `linear` is the default of a plan for tallies."""
    hypotheses: str | None = None
    """For `universal`: stumps or rectangles."""
    features: Names | None = None
    """For `universal`: the encoded columns of the class, written COLUMN or COLUMN=CATEGORY; by default all."""
    epsilon: Epsilon | None = None
    """For `universal`, if labels are released as well: the ε of choosing it. Labels get the rest."""

    @model_validator(mode="after")
    def keys_are_of_its_learner(self) -> Self:
        fitted, chosen = ("estimator", "params", "refused"), ("hypotheses", "features", "epsilon")
        of_others = {"fitted": chosen, "universal": fitted, "linear": (*chosen, *fitted)}
        for key in of_others[self.learner]:
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} does not apply to learner = {self.learner!r}")
        if self.learner == "universal" and self.hypotheses is None:
            raise ValueError("hypotheses must be given for learner = 'universal'")
        return self

    @property
    def space(self) -> HypothesesPlan:
        """The hypothesis class that a universal student is chosen from."""
        return HypothesesPlan(hypotheses=self.hypotheses or "", features=self.features)
