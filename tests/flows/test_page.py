"""Prefect's page of a run tells what it came to: a name to find it by, its outcome, and how its stages went."""

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.sorting import FlowRunSort

from tests.world import Plan, Summary, spent_in_words, start, start_extension

pytestmark = pytest.mark.usefixtures("prefect_server")


def latest(client: SyncPrefectClient) -> tuple[str, dict[str, Any]]:
    """The name of the latest flow run, and its artifacts by key: unsorted, 200 of all are read, in the order of ids."""
    (run,) = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)
    found = client.read_artifacts(artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id])))
    return run.name, {item.key: item.data for item in found if item.key}


def tells(page: dict[str, Any], summary: Summary) -> bool:
    stages = page["stages"] if isinstance(page["stages"], list) else json.loads(page["stages"])
    listed = [(row["stage"], row["from cache"] == "yes", row["seconds"]) for row in stages]
    return listed == [(stage.name, stage.cached, stage.seconds) for stage in summary.stages] and all(
        part in page["outcome"]
        for part in (
            f"| rows queried | {summary.asked} ({summary.asked_now} by this command) |",
            f"| rows refused | {summary.refused} |",
            f"ε = {summary.guarantee['epsilon']:g}, δ = {summary.guarantee['delta']:g}",
            summary.student["model_uri"],
            f"concord verify {summary.session}",
            f"]({Path(summary.report).as_uri()})",
            f"accuracy {summary.student['public_test']['accuracy']:.1%} (",
            spent_in_words(summary.lifetime),
        )
    )


@pytest.mark.slow
def test_a_run_and_an_extension_are_named_for_their_session(
    session: str, plan: Plan, home: Path, arriving: Path
) -> None:
    first = start(plan, home)
    with get_client(sync_client=True) as client:
        name, page = latest(client)
        assert name == f"learn {session}"
        assert tells(page, first)
        more = start_extension(session, arriving, home)
        name, page = latest(client)
    assert name == f"extend {session}"
    assert tells(page, more)
    assert not tells(page, first)
