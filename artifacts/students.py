"""The section of the plan about the student: one by name, a universal one, or candidates of which one is chosen."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from concord.artifacts.sections import Epsilon, HypothesesPlan, Learner, Names


class Fitted(Learner):
    """What is fitted to released labels; `refused` is what it does with refused rows."""

    refused: Literal["random", "drop", "soft"] = "random"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class Candidate(Fitted):
    """A student that may be chosen: fitted, or (linear) the model that tallies are decoded to."""

    learner: Literal["fitted", "linear"] = "fitted"


class StudentPlan(Fitted):
    """The published classifier: fitted to released labels, or (universal) a hypothesis chosen on the private rows, or
    (linear) the model that tallies are decoded to.

    candidates  students of which one is chosen, by its errors on the private units that [test] sets aside
    epsilon     what that choice may spend there; or the choice of a universal student, if labels are bought as well
                and have the rest
    """

    learner: Literal["fitted", "universal", "linear"] = "fitted"
    hypotheses: str | None = None
    features: Names | None = None
    grid: Annotated[int, Field(ge=1, le=10_000)] = 16
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=2, max_length=100)] | None = None
    epsilon: Epsilon | None = None

    @model_validator(mode="after")
    def keys_are_of_its_learner(self) -> Self:
        fitted, chosen = ("estimator", "params", "refused", "seed"), ("hypotheses", "features", "grid", "epsilon")
        of_others = {
            "fitted": (*chosen[:-1], *(() if self.candidates else chosen[-1:])),
            "universal": (*fitted, "candidates"),
            "linear": (*chosen, "estimator", "params", "refused", "candidates"),
        }
        for key in of_others[self.learner]:
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} has no meaning for learner = {self.learner!r}")
        if self.learner == "universal" and self.hypotheses is None:
            raise ValueError("hypotheses must be given for learner = 'universal'")
        return self

    @model_validator(mode="after")
    def candidates_differ_and_have_a_price(self) -> Self:
        if self.candidates is None:
            return self
        for key in Fitted.model_fields:
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} has no meaning where there are candidates, each of which has its own")
        for at, candidate in enumerate(self.candidates):
            if candidate in self.candidates[:at]:
                raise ValueError(f"candidates must differ from one another, and number {at + 1} came before")
        if self.epsilon is None:
            raise ValueError("epsilon must be given where there are candidates: what the choice may spend")
        return self

    @property
    def each(self) -> tuple["StudentPlan", ...]:
        """The students that may be published: the candidates, or this one."""
        return tuple(map(self.of, self.candidates)) if self.candidates else (self,)

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """The section that asks for that candidate alone."""
        return cls(**candidate.model_dump())

    @property
    def space(self) -> HypothesesPlan:
        """The class that a universal student is chosen from."""
        return HypothesesPlan(hypotheses=self.hypotheses or "", features=self.features, grid=self.grid)
