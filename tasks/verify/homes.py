"""Verify the published rounds of several homes: signatures, what answers what, charges, and that shares are added.

It reads the signed files by itself, and shares no line with what writes them, except how codes are numbered.

Assumes      the session's settings are those on record, with the keys that the homes agreed on; a reader compares those
             with the keys that the homes name elsewhere
Guarantees   found and named: a question or share with a wrong signature, of another run, plan, number or home; a share
             that answers another question than the rest; a question that names other shares than those that were added
             before; a round that asked other cells than the signed question does, or more than was paid for; codes that
             are not those on record, and that no round announced; settings or a guarantee that say otherwise than what
             the homes answered who they are, whether people may be in several, what a unit is, and what all pay; a home
             whose own ledger breaks its rule, did not charge what it claims, or whose claim its settings do not prove;
             sums or noise other than those of all shares; no warning of a home that took no part, or whose share
             differs
Not covered  whether a home's rows are true; that no home keeps charges back from its excerpt: it verifies its own
             ledger at home. That the student was decoded from these sums. Checked by
             tests/flows/test_several_homes.py
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import sha256
from concord.artifacts.home.signing import QUESTION_TYPE, SHARE_TYPE, PublicKey, payload_of
from concord.artifacts.kinds import Joint, Kind, Share, Tallies
from concord.artifacts.ledger.excerpt import Excerpt
from concord.tasks.verify.checks import checked, equal, proved
from concord.tasks.verify.limited import Check
from concord.tasks.verify.reckoning import ledger_faults
from concord.tasks.verify.recompute_gaussian import steps
from concord.tasks.verify.rounds import round_fault

Said = Mapping[str, Any]
"""The content of a signed file, JSON."""


ALL_PAY = ("rounds", "classes", "steps", "secret", "many")
"""Settings of every home by which all together are charged."""


def joint_rounds(kind: Joint, rounds: Sequence[bytes], unit: tuple[str, str], warnings: Sequence[str] | None) -> str:
    """Check the released files of all rounds so far, in order. Raises NotVerified naming what is wrong.

    unit      and neighbours of the stated guarantee
    warnings  of the certificate; None before there is one
    """
    if len(rounds) > (most := steps(kind)):
        raise NotVerified(f"{len(rounds)} rounds were added, and the settings pay for {most}")
    keys, before, last = kind.keys_by_name, "", dict[str, Said]()
    digests, earlier, codes, counts = list[dict[str, str]](), dict[str, Any](), None, dict[str, list[float]]()
    for number, text in enumerate(rounds):
        released = json.loads(text)
        homes, question = released["homes"], released["homes"]["question"].encode()
        asked = _question(number, question, kind, before)
        _check_question(number, released["question"], asked)
        equal(f"the shares named in question {number}", asked["shares"], digests)
        codes = (earlier.get("next") or {}).get("codes") or codes or asked["codes"]
        equal(f"the codes of question {number}", asked["codes"], codes)
        of_one = {**released, "scale": kind.rounds[number].scale}
        if fault := round_fault(kind, number, of_one, earlier):
            raise NotVerified(fault)
        what = f"the share of {{}} in round {number}"
        shares = {
            name: _read(own.encode(), SHARE_TYPE, keys.get(name, ""), what.format(name))
            for name, own in homes["shares"].items()
        }
        for name, share in shares.items():
            follows = {"question_before": before, "share_before": digests[-1].get(name, "") if digests else ""}
            due = {"number": number, "home": name, "question": sha256(question), **follows}
            check_share(share, due, kind, unit)
        for name, share in shares.items():
            counts.setdefault(name, []).extend(_counts(released["question"], share["sums"]))
        _added(number, released, shares, counts)
        _warned(number, [name for name in keys if name not in shares], homes["differ"], warnings)
        before, last, earlier = sha256(question), {**last, **shares}, released
        digests.append({name: sha256(share.encode()) for name, share in homes["shares"].items()})
    for name, share in last.items():
        check_charge(name, share, kind)
    return f"{len(rounds)} rounds are the sums of signed shares of {', '.join(last)}, each charged by its own ledger"


def _question(at: int, question: bytes, kind: Joint, before: str) -> Any:
    """The signed question of that number, checked against the settings."""
    asked = _read(question, QUESTION_TYPE, kind.lead, f"question {at}")
    _equal(at, "question", asked, number=at, run=kind.run, plan=kind.plan, before=before)
    each = Kind.of({**asked["mechanism"], "name": "tallies"}).only(Tallies)
    for name in ALL_PAY:
        equal(f"the {name} in question {at}", getattr(each, name), getattr(kind, name))
    _agreed(at, asked["homes"], kind)
    return asked


def _check_question(at: int, question: Said, asked: Said) -> None:
    """Check that a released round asked what the signed question asks: the fields, with their codes, and the model."""
    starts = [field["start"] for field in asked["codes"]["fields"]]
    for name in ("fields", "model"):
        equal(f"the {name} of round {at}", question[name], asked[name])
    for field, (start, stop) in zip(asked["fields"], question["spans"], strict=True):
        due = [starts[field], *(starts[field + 1 : field + 2] or [stop])]  # the number of sums says where that ends
        equal(f"the spans of round {at}", [start, stop], due)


def _agreed(at: int, homes: Said, kind: Joint) -> None:
    """Check that settings describe the homes as the question did, to which each of them agreed."""
    keys = dict(zip(homes["names"], homes["keys"], strict=True))
    several = len(keys) if homes["people"] == "in several" else 1
    said = {**homes, "lead": keys.get(homes["lead"], homes["lead"]), "homes": several}
    stated = kind.model_dump(mode="json", by_alias=True, include={"names", "public_keys", "people", "lead", "homes"})
    for name, value in stated.items():
        equal(f"what question {at} says of {name}", said[name], value)


def _read(envelope: bytes, kind: str, key: str, what: str) -> Any:
    try:
        return json.loads(payload_of(envelope, kind, PublicKey(bytes.fromhex(key))))
    except (NotVerified, ValueError) as wrong:
        raise NotVerified(f"{what} is not signed as it must be: {wrong}") from None


def _equal(at: int, what: str, found: Said, **due: object) -> None:
    for name, value in due.items():
        equal(f"the {name} of the {what} of round {at}", found[name], value)


def _counts(question: Said, sums: Sequence[int]) -> list[float]:
    """The number of units by a share, if its round counted them."""
    if question["what"] == "codes":
        cells = sum(stop - start for start, stop in question["spans"])
        return [sum(sums[:cells]) / question["steps"] / len(question["fields"])]
    return [sums[-1] / question["count"]] if question["count"] else []


def _added(number: int, released: Said, shares: Mapping[str, Said], counts: Mapping[str, Sequence[float]]) -> None:
    """Check that a round's sums are those of its shares, its noise the root of their number times that of one, and its
    part of all units that of the homes which answered, by all `counts` so far."""
    own = [*shares.values()]
    if not own or [sum(column) for column in zip(*(share["sums"] for share in own), strict=True)] != released["sums"]:
        raise NotVerified(f"the sums of round {number} are not the sum of its shares")
    units = {name: max(1.0, math.fsum(each) / len(each)) if each else 1.0 for name, each in counts.items()}
    part = math.fsum(units[name] for name in shares) / math.fsum(units.values())
    if not math.isclose(released["scale"], own[0]["scale"] * len(own) ** 0.5) or not math.isclose(
        released["part"], part
    ):
        raise NotVerified(f"round {number} states another noise, or another part of all units, than its shares have")


def _warned(number: int, absent: Sequence[str], differ: Sequence[str], warnings: Sequence[str] | None) -> None:
    """Check that a certificate warns of homes that took no part in a round, or whose share was found to differ."""
    said_of = (absent, f"Round {number} is without the rows of"), (differ, f"In round {number} the share of")
    for names, said in said_of:
        if (
            names
            and warnings is not None
            and not any(warning.startswith(f"{said} {', '.join(names)}") for warning in warnings)
        ):
            raise NotVerified(f"the certificate leaves out what must stand in it: {said} {', '.join(names)}")


def verify_share(settings: Said, unit: tuple[str, str], share: Said, due: Said) -> list[Check]:
    """The check of a home's share by itself, and of the charge that its own ledger shows; see `check_share`.

    settings   of all homes together
    """

    def check() -> str:
        kind = Kind.of(settings).only(Joint)
        check_share(share, due, kind, unit)
        check_charge(due["home"], share, kind)
        return "it answers the question, and is charged"

    return [checked(due["home"], check)]


def check_share(share: Said, due: Said, kind: Joint, unit: tuple[str, str]) -> None:
    """Check the share of one home in a round against the settings. Raises NotVerified naming what is wrong.

    due    the `number` of the round and the `home`, and the digests that the share must give: of its `question`, the
           `question_before` and the `share_before`
    unit   and neighbours of the stated guarantee
    """
    noise = {"scale": kind.rounds[due["number"]].scale, "unit": unit[0], "neighbours": unit[1]}
    stated = {**due, "run": kind.run, **noise, **kind.each.model_dump()}
    _equal(due["number"], f"share of {due['home']}", share, **stated)


def check_charge(name: str, share: Said, kind: Joint) -> None:
    """Check a home's charge by its ledger's excerpt: the rule, recomputed, and the settings of what it claims. Raises
    NotVerified naming what is wrong."""
    agreed = {"run": kind.run, "plan": kind.plan, "home": name, "key": kind.keys_by_name[name]}
    excerpt = Excerpt.read(share["excerpt"].encode())
    for wrong in ledger_faults(excerpt.records):
        raise NotVerified(f"the ledger of {name}: {wrong}")
    try:
        session = excerpt.reading.session(share["session"])
    except WrongInput as missing:
        raise NotVerified(f"the ledger of {name}: {missing}") from None
    own = session.kind.only(Share)
    for term, value in agreed.items():
        equal(f"the {term} that {name} agreed to", getattr(own.share, term), value)
    for term in (*ALL_PAY, "codes"):
        equal(f"the {term} that {name} charged", getattr(own, term), getattr(kind, term))
    equal(f"the claim of {name}", (share["epsilon"], share["delta"]), (session.epsilon, session.delta))
    proved(session.mechanism, (session.epsilon, session.delta), f" of {name}")
    if session.asked <= share["release"]:
        raise NotVerified(
            f"the ledger of {name} has asked {session.asked} rounds, and it answered {share['release'] + 1}"
        )
