"""What a shard may answer, and its canonical text: an answer is known by its bits."""

import json
import math
import random
from collections.abc import Hashable
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.world import DEEPEST, LARGEST_INTEGER, LONGEST, canonical, from_plain


class Shade(IntEnum):
    DARK = 1


class Other(Enum):
    DARK = 1


class Odd(str):
    """Text that shows itself otherwise each time, and hashes so."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(random.random())

    __repr__ = __str__

    def __hash__(self) -> int:
        return random.getrandbits(30)


def nested(levels: int) -> Hashable:
    """Beyond DEEPEST, it is deeper than a certificate can be read."""
    answer: Hashable = 1
    for _ in range(levels):
        answer = (answer,)
    return answer


DIFFERENT: list[Hashable] = [
    *(None, True, False, 0, 1, -1, 0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 5e-324, 2**53 + 1, -(2**70)),
    *("", "1", "true", "null", "a", "A", "é", "e\u0301", b"", b"1", (), (1,), (True,), (1.0,), ((1,),)),
    *(("a", "b"), ("b", "a"), frozenset(), frozenset({1}), frozenset({"a"}), (frozenset({1}),), ("int", "0x1")),
    nested(DEEPEST),
]


def test_answers_that_a_reader_can_tell_apart_have_texts_of_their_own_that_give_them_back() -> None:
    texts = [canonical(answer) for answer in DIFFERENT]
    assert len(set(texts)) == len(DIFFERENT)
    assert all(text.isascii() and "\n" not in text for text in texts)
    for answer, text in zip(DIFFERENT, texts, strict=True):
        given = from_plain(json.loads(text))
        assert canonical(given) == text
        assert type(given) is type(answer)
        assert given == answer or (isinstance(answer, float) and math.isnan(answer))
    assert list(frozenset([0, 8])) != list(frozenset([8, 0]))  # as is tried below


@pytest.mark.parametrize(
    ("answer", "alike"),
    [
        (frozenset([0, 8]), frozenset([8, 0])),  # which list their parts in two orders
        (frozenset(["a", 1, None, 2.5]), frozenset([2.5, None, 1, "a"])),
        (math.nan, -math.nan),
        (np.float64(0.5), 0.5),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (Shade.DARK, 1),
        (Odd("dark"), "dark"),
        ((np.int8(1), Odd("x")), (1, "x")),
    ],
)
def test_answers_that_look_alike_are_one(answer: Hashable, alike: Hashable) -> None:
    assert canonical(answer) == canonical(alike)


@pytest.mark.parametrize(
    "answer",
    [
        *(nested(DEEPEST + 1), nested(300)),
        *(pl.Series([1]), [1], {1}, {"a": 1}, object(), Other.DARK, 1j, np.datetime64("2020-01-01"), np.longdouble(1)),
        *(
            "\ud800",
            ("a", frozenset({"\udfff"})),
            pl.Series([1]),
            "a" * LONGEST,
            2 ** (LARGEST_INTEGER + 1),
            (("x" * 99,) * 99,),
        ),
    ],
)
def test_an_answer_of_another_type_or_of_any_length_is_none(answer: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical(answer)
