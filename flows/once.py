"""The steps of a question with one answer, in a session of its own: found or opened, counted, and released."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from concord.artifacts.schemas import PublicRows, Ref
from concord.flows.admit import admit, begin, check_unchanged
from concord.flows.precheck import precheck_tables
from concord.flows.run import Admitted, Counted, PrivateFiles, RunContext
from concord.flows.stage import Disclosure, pass_door
from concord.tasks.door.admit import planned_domain
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.door import release_once


def answer_once(
    run: RunContext, ask: SingleAsk[Any], public: PublicRows, exact: Callable[[PrivateFiles], Sequence[Ref]]
) -> tuple[Admitted[Any], Disclosure]:
    """Release the answer to a question, or replay it; in a domain that has none, its session is opened.

    exact   writes the private numbers that the ask draws from, to files of the vault
    Raises BudgetRefused before anything private is read.
    """
    (admitted,) = admit(run, planned_domain(run.stores, run.plan), [ask], public)  # refuses here
    private = PrivateFiles.of(run, admitted.stream.sources)
    precheck_tables(run, private, public.encoding, admitted.session)
    files = exact(private)
    counted = Counted([ref.digest for ref in files], files)
    check_unchanged(run, admitted.session, counted.private_digests)
    session = begin(run, admitted, private, counted)
    return admitted, pass_door(run, session, partial(release_once, ask=ask, exact=files))
