"""Sentences asked for their facts: the field, the value, the rule's numbers, the next step; never for their words.

How each is worded stands in tests/texts, which `make reference` writes anew."""

import re


def facts(*parts: object) -> str:
    """A pattern of sentences that hold each of these facts, in any order, for `pytest.raises(match=…)`.

    A number is a whole one: 0 is no fact of 0.5, of 10 or of 1,000,000, of which it is a part."""
    assert parts
    assert all(map(str, parts)), "an empty fact, which every sentence holds"
    return "(?s)" + "".join(rf"(?=.*(?<!\w)(?<!\d[.,]){re.escape(str(part))}(?!\w)(?![.,]\d))" for part in parts)


def says(sentence: object, *parts: object) -> bool:
    """Whether a sentence, or an error, holds each of these facts."""
    return re.match(facts(*parts), str(sentence)) is not None
