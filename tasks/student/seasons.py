"""Seasons read as one: the running totals of all seasons of a stream, joined into the sums of one round a question.

All seasons ask the same questions, each of its own units. Of season s the last release says G_s = n_s·g + e_s, where g
is what one unit adds on average and e_s is noise of variance σ_s² besides the labels' own, of about n_s·v. So
Σ a_s·G_s with a_s ∝ 1/(σ_s²/n_s + v) says all that they say of g together. Scaled until Σ a_s·n_s = Σ a_s²·n_s, it is
what a round over that many units would release, with noise of variance Σ a_s²·σ_s²; the decoder takes it as such, and
its work does not grow with the number of seasons.

Assumes      releases are of one stream, the last of each season: post-processing, in floats
Guarantees   one season alone is read as it was released, to the bit
Not covered  v is a mean over cells: a cell of many units would ask for slightly other weights
             Checked by tests/tasks/student/test_decode.py
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from concord.artifacts.measures import Estimate
from concord.artifacts.schemas import Encoding
from concord.tasks.data.codes import CodeMatrix, Codes
from concord.tasks.data.encode import labelled_rows
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.student.decode import Decoded, NoisyRound, decode, estimated_units, scores
from concord.tasks.student.infer import RoundFile
from concord.tasks.student.intervals import share

LABEL_VARIANCE = 0.125
"""p(1 − p) of a typical row, in votes²."""


def follow_totals(rows: CodeMatrix, codes: Codes, ended: Sequence[RoundFile], release: RoundFile) -> dict[str, Any]:
    """The part of a release's file that follows from running totals: the model decoded from all seasons so far.

    rows    codes (m, F) of public rows
    ended   the last release of each season before
    """
    return {"decoded": decoded_of([*ended, release], rows, codes).record()}


def decoded_of(releases: Sequence[RoundFile], rows: CodeMatrix, codes: Codes) -> Decoded:
    """The model that follows from the last release of each season."""
    return decode(joined([read(each) for each in releases]), rows, codes)


def history(releases: Iterable[RoundFile], codes: Codes, path: str, encoding: Encoding) -> tuple[Estimate, ...]:
    """The accuracy of the model decoded at each release, on the public labelled rows at `path`."""
    rows, truth = labelled_rows(path, encoding)
    coded = codes.of(rows)
    found = (scores(Decoded.from_record(each["decoded"]), coded).argmax(axis=1) for each in releases)
    return tuple(share(int(np.sum(named == truth)), len(truth)) for named in found)


def read(release: RoundFile) -> list[NoisyRound]:
    """The running totals of a release, as rounds that the decoder takes."""
    asked = map(RoundQuestion.from_record, release["questions"])
    spread, each = float(release["spread"]), zip(asked, release["scales"], release["totals"], strict=True)
    return [NoisyRound(question, scale * spread, np.array(sums, np.int64)) for question, scale, sums in each]


def joined(seasons: Sequence[Sequence[NoisyRound]]) -> list[NoisyRound]:
    """Rounds over the units of all seasons, one a question, from the rounds of each."""
    if len(seasons) == 1:
        return list(seasons[0])
    units = np.array([estimated_units(rounds)[0] for rounds in seasons])
    cells = np.mean([len(each.question.spans) / each.question.width for each in seasons[0] if _of_labels(each)])
    noise = np.array([next(each.noise**2 for each in rounds if _of_labels(each)) for rounds in seasons])
    weights = 1 / (noise / units + cells * LABEL_VARIANCE)
    weights *= (weights @ units) / (weights**2 @ units)
    return [
        NoisyRound(
            alike[0].question,
            float(np.sqrt(weights**2 @ np.array([each.scale**2 for each in alike]))),
            np.rint(weights @ np.array([each.sums for each in alike], np.float64)).astype(np.int64),
        )
        for alike in zip(*seasons, strict=True)
    ]


def _of_labels(heard: NoisyRound) -> bool:
    return heard.question.what == "labels"
