"""What a hostile lead asks one of several homes, and a world in which it is known what the home reads."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import NotVerified
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Encoding, Scaled
from concord.tasks.asks.share import Asked, ModelRecord
from concord.tasks.data.codes import NumberField
from concord.tasks.mechanisms.contributions import IntegerModel
from tests.support.several import Several

DOMAIN = "people"


class Watched(Several):
    """A copy of that world, in which it is known whether a private file was read."""

    read = 0

    def refuses(self, match: str, error: type[Exception] = NotVerified, **asked: Any) -> None:
        """North refuses, before anything private is read, and with nothing charged or drawn."""
        self.read, before = 0, self.state()
        with pytest.raises(error, match=match):
            self.contribute("north", **asked)
        assert (self.read, self.state()) == (0, before)

    def passes_over(self, match: str) -> None:
        """North names a file that is no question, and replays what it answered before."""
        self.read, before, files = 0, self.state(), self.files()
        done = self.contribute("north")
        assert (done["answered"], done["answered_now"], self.read) == (0, False, 0)
        assert (self.state(), self.files()) == (before, files)
        ((name, why),) = done["refused"].items()
        assert re.search(match, f"{name}: {why}")

    def state(self) -> Any:
        ledger, vault = Ledger.of(self.home("north")), self.home("north") / "vault"
        drawn = sorted(path.name for path in vault.rglob("*.npz"))
        return ledger.total(DOMAIN), ledger.sessions(DOMAIN), drawn

    def hostile(self, number: int = 1, /, **changes: Any) -> None:
        """The lead signs another question of that number."""
        self.post(self.asked(number)[0].model_copy(update=changes))


def stopped(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def narrower(asked: Asked) -> dict[str, Any]:
    rounds = tuple(replace(each, scale=each.scale * 0.9) for each in asked.mechanism.rounds)
    return {"mechanism": replace(asked.mechanism, rounds=rounds)}


def larger(asked: Asked) -> dict[str, Any]:
    return {"mechanism": replace(asked.mechanism, epsilon=8.0)}


def wider(asked: Asked) -> dict[str, Any]:
    rounds = tuple(replace(each, cells=each.cells + 1) for each in asked.mechanism.rounds)
    return {"mechanism": replace(asked.mechanism, rounds=rounds)}


def twice_all_fields(asked: Asked) -> dict[str, Any]:
    """Of more fields votes are fewer steps, so that a unit moves no further; of more numbers nobody paid."""
    return {"fields": 2 * tuple(range(asked.codes.width))}


def other_codes(asked: Asked) -> dict[str, Any]:
    first, *rest = asked.codes.fields
    assert isinstance(first, NumberField)
    cuts = (first.cuts[0] - 1, *first.cuts[1:])
    return {"codes": asked.codes.model_copy(update={"fields": (first.model_copy(update={"cuts": cuts}), *rest)})}


def falling_cuts(asked: Asked) -> dict[str, Any]:
    first, *rest = asked.codes.fields
    assert isinstance(first, NumberField)
    fields = (first.model_copy(update={"cuts": first.cuts[::-1]}), *rest)
    return {"codes": asked.codes.model_copy(update={"fields": fields})}


def overlapping(asked: Asked) -> dict[str, Any]:
    """Two codes of a row in one range: its norm would be F, and not √F."""
    first, second, *rest = asked.codes.fields
    fields = (first, second.model_copy(update={"start": second.start - 1}), *rest)
    return {"codes": asked.codes.model_copy(update={"fields": fields})}


def one_column_again_and_again(asked: Asked) -> dict[str, Any]:
    """Fields by which the home would need memory without end."""
    first = asked.codes.fields[0]
    more = tuple(first.model_copy(update={"start": asked.codes.size + at * first.size}) for at in range(1000))
    return {"codes": asked.codes.model_copy(update={"fields": (*asked.codes.fields, *more)})}


def turned_range(asked: Asked) -> dict[str, Any]:
    """A column whose low end is above its high end."""
    first, *rest = asked.encoding.columns
    assert isinstance(first, Scaled)
    turned = first.model_copy(update={"low": first.high + 1})
    return {"encoding": asked.encoding.model_copy(update={"columns": (turned, *rest)})}


def foreign_codes(asked: Asked) -> dict[str, Any]:
    first, *rest = asked.codes.fields
    fields = (first.model_copy(update={"name": "person"}), *rest)
    return {"codes": asked.codes.model_copy(update={"fields": fields})}


def the_label_itself(asked: Asked) -> dict[str, Any]:
    column = Scaled(kind="numeric", name="outcome", mean=0, scale=1, fill=0, low=0, high=1, missing=False)
    return {"encoding": asked.encoding.model_copy(update={"columns": (*asked.encoding.columns, column)})}


def other_classes(asked: Asked) -> dict[str, Any]:
    return {"encoding": Encoding(**{**dict(asked.encoding), "classes": ("yes", "no")})}


def of_other_codes(asked: Asked) -> dict[str, Any]:
    weights = np.zeros((asked.codes.size + 1, 1), np.int64)
    return {"model": ModelRecord(**IntegerModel(weights, weights[0]).record())}


ATTACKS: dict[str, tuple[Callable[[Asked], dict[str, Any]], str]] = {
    "another roster": (
        lambda asked: {"homes": asked.homes.model_copy(update={"public_keys": asked.homes.public_keys[::-1]})},
        "of other homes and keys",
    ),
    "a question that was left out": (lambda _: {"before": "0" * 64}, "does not follow"),
    "shares of somebody else": (
        lambda asked: {"shares": ({**dict(*asked.shares[:1]), "north": "0" * 64},)},
        "builds on other shares of north",
    ),
    "north left out": (lambda asked: {"shares": ({"south": asked.shares[0]["south"]},)}, "or leaves one out"),
    "less noise": (narrower, "too little noise"),
    "a larger budget": (larger, "another budget"),
    "more numbers than in the first question": (wider, "changes the codes, rounds or rows"),
    "more numbers than were paid for": (twice_all_fields, "not one that its round paid for"),
    "other codes": (other_codes, "not those of the public table"),
    "codes that do not rise": (falling_cuts, "must rise"),
    "fields of one column again and again": (one_column_again_and_again, "at most 2 fields of a column"),
    "a range whose low end is above its high end": (turned_range, "must not be above its high end"),
    "codes of a column that is no feature": (foreign_codes, "of no such column"),
    "the label as a feature": (the_label_itself, "other features"),
    "classes in another order": (other_classes, "another label, classes"),
    "a model of other codes": (of_other_codes, "must have a weight"),
}
