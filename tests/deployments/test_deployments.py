"""The files of deployments/ are of one piece: parameters that their flows take, commands that exist, nothing unpinned,
no secret but in its file. What no engine is needed for; tests/deployments/test_schedules.py runs the services."""

import copy
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import prefect.server
import pytest
import yaml
from docker.utils.build import PatternMatcher, exclude_paths  # type: ignore[import-untyped]  # Docker's own reading
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.server.schemas.schedules import CronSchedule
from prefect.settings.models.flows import FlowsSettings
from prefect.utilities.schema_tools.validation import validate

from tests.deployments.services import COMPOSE, ROOT
from tests.support import postgresql
from tests.world import MECHANISMS, BudgetRefused, EnvironmentFailed, NotVerified, WrongInput, failed_state, load_plan

FOLDER = ROOT / "deployments"
PREFECT: dict[str, Any] = yaml.safe_load((FOLDER / "prefect.yaml").read_text())
DEPLOYMENTS = {item["name"]: item for item in PREFECT["deployments"]}
JOBS = ("learn", "extend", "study", "refresh")
TEMPLATES = json.loads(
    (Path(prefect.server.__file__).parent / "api/collections_data/views/aggregate-worker-metadata.json").read_text()
)
POOLS = {
    "concord": TEMPLATES["prefect"]["process"]["default_base_job_configuration"],
    "concord-docker": TEMPLATES["prefect-docker"]["docker"]["default_base_job_configuration"],
    "concord-kubernetes": json.loads((FOLDER / "kubernetes-pool.json").read_text()),
}
"""The template of each pool's jobs: Prefect's own, but for Kubernetes."""
PINNED = re.compile(r"[\w./-]+(:\d+\.\d+[\w.-]*|@sha256:[0-9a-f]{64})")
SECRET = re.compile(r"(?i)(secret_access_key|password|api_key|auth_string|token)$")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CONSTRAINTS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
COPIED = [place for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE) for place in line.split()]
IGNORED = [line for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")]
PACKAGES = ("artifacts", "flows", "tasks")


def test_there_is_a_deployment_of_every_job() -> None:
    everywhere = {job + kind for job in JOBS for kind in ("", "-docker", "-kubernetes")}
    assert set(DEPLOYMENTS) == everywhere
    assert PREFECT["prefect-version"] == CONSTRAINTS["prefect"]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_s_parameters_are_those_of_its_flow_and_one_run_goes_at_a_time_in_every_pool(name: str) -> None:
    job, item = DEPLOYMENTS[name.partition("-")[0]], DEPLOYMENTS[name]
    flow: Flow[..., Any] = load_flow_from_entrypoint(item["entrypoint"], use_placeholder_flow=False)
    validate(item["parameters"], flow.parameters.model_dump(), raise_on_error=True)
    assert set(item["parameters"]) <= set(inspect.signature(flow.fn).parameters)
    assert item["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert [item[key] for key in ("entrypoint", "parameters")] == [job[key] for key in ("entrypoint", "parameters")]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_what_a_pool_is_told_fits_its_template_names_a_pinned_image_and_no_secret(name: str) -> None:
    pool = DEPLOYMENTS[name]["work_pool"]
    told, template = pool.get("job_variables", {}), POOLS[pool["name"]]
    known = template["variables"]["properties"]
    assert set(told) <= set(known)
    validate(told, template["variables"], raise_on_error=True, ignore_required=True)
    assert ("image" in told) == (pool["name"] != "concord")
    assert PINNED.fullmatch(told.get("image", "concord:1.0.0"))
    for variable, value in told.get("env", {}).items():
        assert not SECRET.search(variable)
        assert not re.search(r"//[^@/]*:[^@/]*@", value)
    if told:
        folder = DOCKERFILE.split("WORKDIR ")[1].split()[0]
        assert DEPLOYMENTS[name]["pull"] == [{"prefect.deployments.steps.set_working_directory": {"directory": folder}}]


def test_a_planted_secret_or_an_unpinned_image_would_be_seen() -> None:
    assert [bool(SECRET.search(name)) for name in ("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "CONCORD_HOME")] == [1, 1, 0]
    assert [bool(PINNED.fullmatch(image)) for image in ("concord", "concord:latest", "a.b/c:1.0")] == [0, 0, 1]


def test_the_pool_of_kubernetes_is_prefect_s_with_a_home_a_secret_s_name_and_a_user() -> None:
    ours = copy.deepcopy(POOLS["concord-kubernetes"])
    pod = ours["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container.pop("volumeMounts")}
    claimed = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod.pop("volumes")}
    assert (mounted, claimed) == ({"home": "/srv/home"}, {"home": "concord-home"})
    assert container.pop("envFrom") == [{"secretRef": {"name": "concord", "optional": True}}]
    user = int(re.search(r"--uid (\d+)", DOCKERFILE)[1])  # type: ignore[index]
    once = "OnRootMismatch"  # else each mount gives the group all files, and the vault refuses what others may read
    identity = {"runAsNonRoot": True, "runAsUser": user, "fsGroup": user, "fsGroupChangePolicy": once}
    assert pod.pop("securityContext") == {**identity, "seccompProfile": {"type": "RuntimeDefault"}}
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container.pop("securityContext") == restricted  # as the Pod Security Standard "restricted" asks
    assert ours == TEMPLATES["prefect-kubernetes"]["kubernetes"]["default_base_job_configuration"]
    for name in DEPLOYMENTS:
        variables = DEPLOYMENTS[name]["work_pool"].get("job_variables", {}).get("env", {"CONCORD_HOME": "/srv/home"})
        below = "/concord" if name.endswith("-kubernetes") else ""  # a claim is root's, and another's home is refused
        assert variables["CONCORD_HOME"] == mounted["home"] + below


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_prefect_takes_every_deployment() -> None:
    with get_client(sync_client=True) as client:
        for pool, kind in zip(POOLS, ("process", "docker", "kubernetes"), strict=True):
            client.create_work_pool(WorkPoolCreate(name=pool, type=kind, base_job_template=POOLS[pool]))
        words = ["--no-prompt", "deploy", "--prefect-file", "deployments/prefect.yaml", "--all"]
        command = [str(Path(sys.executable).with_name("prefect")), *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        for name, item in DEPLOYMENTS.items():
            made = client.read_deployment_by_name(f"{name.partition('-')[0]}/{name}")
            assert made.work_pool_name == item["work_pool"]["name"]
            assert made.parameters == item["parameters"]
            assert made.entrypoint == item["entrypoint"]
            assert (made.job_variables or {}).get("image") == item["work_pool"].get("job_variables", {}).get("image")


def test_the_worker_of_compose_serves_all_jobs_and_what_arrives_is_on_a_schedule_that_names_its_zone() -> None:
    command, zones = SERVICES["worker"]["command"], {"extend": "Europe/Berlin", "refresh": "UTC"}
    assert {DEPLOYMENTS[name]["work_pool"]["name"] for name in JOBS} == {command[command.index("--pool") + 1]}
    assert command[command.index("--type") + 1] == "process"
    assert {name.partition("-")[0] for name, item in DEPLOYMENTS.items() if item.get("schedules")} == {*zones}
    for name, zone in zones.items():
        assert [CronSchedule(**schedule).timezone for schedule in DEPLOYMENTS[name]["schedules"]] == [zone]


def test_the_deployed_plan_is_there_and_opens_nothing_further() -> None:
    parameters = DEPLOYMENTS["learn"]["parameters"]
    plan = load_plan(ROOT / parameters["plan"])
    assert parameters["new_session"] is False
    assert {DEPLOYMENTS[name]["parameters"]["session"] for name in JOBS[1:3]} == {plan.privacy.domain}
    assert plan.labeling.mechanism in MECHANISMS  # tallies cannot be extended
    assert load_plan(ROOT / DEPLOYMENTS["refresh"]["parameters"]["plan"]).stream is not None


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_and_watched(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[\w/]+:\d+\.\d+[\w.-]*", service["image"])
    assert service["healthcheck"]["test"][0] == "CMD"
    assert all(need["condition"] == "service_healthy" for need in service.get("depends_on", {}).values())
    assert set(service.get("depends_on", {})) <= set(SERVICES)
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    if "command" in service:  # which is one that the image has
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        assert shutil.which(service["command"][0], path=path)
        assert shutil.which(service["healthcheck"]["test"][1], path=path)


def test_the_image_is_built_by_one_service_and_pulled_by_none() -> None:
    """Compose builds services side by side: two that write one image fail where it is not there yet."""
    ours = [service for service in SERVICES.values() if service["image"].startswith("concord:")]
    (built,) = [service["build"] for service in SERVICES.values() if "build" in service]
    assert (FOLDER / built["context"] / built["dockerfile"]).is_file()
    assert {service["pull_policy"] for service in ours} == {"never"}
    assert len({service["image"] for service in ours}) == 1


def test_secrets_volumes_and_configs_are_declared_and_used() -> None:
    used: dict[str, set[str]] = {"secrets": set(), "configs": set(), "volumes": set()}
    for service in SERVICES.values():
        used["secrets"] |= set(service.get("secrets", []))
        used["configs"] |= {item["source"] for item in service.get("configs", [])}
        used["volumes"] |= {item.split(":")[0] for item in service.get("volumes", []) if item[0] not in "./"}
    assert used == {kind: set(COMPOSE[kind]) for kind in used}


def test_a_secret_is_a_file_that_is_kept_out_of_the_repository() -> None:
    for secret in COMPOSE["secrets"].values():
        assert set(secret) == {"file"}
        folder = f"deployments/{Path(secret['file']).parent}"
        assert f"{folder}/" in (ROOT / ".gitignore").read_text().split()
    for service in SERVICES.values():
        for variable, value in service["environment"].items():
            assert "PASSWORD" not in variable or (variable.endswith("_FILE") and value.startswith("/run/secrets/"))
            assert not re.search(r"//\w+:[^@/]+@", value)


def test_mlflow_lets_in_those_who_know_it_by_the_names_it_has() -> None:
    allowed = next(word for word in SERVICES["mlflow"]["command"] if word.startswith("--allowed-hosts="))
    known_as = SERVICES["worker"]["environment"]["MLFLOW_TRACKING_URI"].removeprefix("http://")
    assert {known_as, "127.0.0.1:5000"} <= set(allowed.removeprefix("--allowed-hosts=").split(","))


def test_the_image_is_of_the_tested_versions_and_not_root_s() -> None:
    words = re.findall(r"^(\w+) (.*)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", dict(words)["FROM"])
    assert "--constraint constraints.txt" in DOCKERFILE
    assert DOCKERFILE.index("COPY deployments") < DOCKERFILE.index("chmod -R a+rX .")  # or a umask hides it
    assert [word for word, _ in words][-2:] == ["USER", "ENTRYPOINT"]
    assert f"--uid {dict(words)['USER']} concord" in DOCKERFILE  # by number: Kubernetes then sees that it is not root's
    assert all((ROOT / place).exists() for place in COPIED)
    assert set(PACKAGES) <= set(COPIED)
    extras = re.search(r'"\.\[(.*)\]"', DOCKERFILE)
    assert extras is not None
    assert extras[1] == "dask,postgresql"
    assert all(CONSTRAINTS.get(name) for name in ("asyncpg", "psycopg2-binary", "psycopg"))


def test_a_change_of_code_leaves_the_packages_of_the_image_as_they_are() -> None:
    """A layer is made anew once one before it is: before the packages are installed, only what names them is copied."""
    before, _, after = DOCKERFILE.partition("pip install --constraint")
    assert re.findall(r"^COPY (.*) \S+$", before, re.MULTILINE) == ["pyproject.toml constraints.txt"]
    assert "pip install --no-deps --editable ." in after  # with the version that the code has


def test_alerts_are_of_all_errors_and_runs_that_were_killed_are_ended() -> None:
    """As `prefect automation create --from-file` reads the file, once it names a block."""
    text = (FOLDER / "automations.yaml").read_text().replace("BLOCK", str(UUID(int=0)))
    alert, killed = map(AutomationCore.model_validate, yaml.safe_load(text)["automations"])
    assert isinstance(alert.trigger, EventTrigger)
    assert isinstance(alert.actions[0], SendNotification)
    kinds = (BudgetRefused, EnvironmentFailed, NotVerified, WrongInput)
    states = {
        failed_state(error.__new__(error, "no")).name for kind in kinds for error in (kind, *kind.__subclasses__())
    }
    assert states == {kind.__name__ for kind in kinds}  # before, a refusal that says how much is left had its own
    assert alert.trigger.expect == {f"prefect.flow-run.{name}" for name in (*states, "Failed", "Crashed", "Late")}
    assert isinstance(killed.trigger, EventTrigger)
    assert isinstance(killed.actions[0], ChangeFlowRunState)
    assert (killed.trigger.posture, killed.actions[0].state) == (Posture.Proactive, StateType.CRASHED)
    assert killed.trigger.within.total_seconds() > 3 * FlowsSettings.model_fields["heartbeat_frequency"].default


@pytest.mark.slow
def test_the_database_is_healthy_once_mlflow_s_is_there() -> None:
    with postgresql.server("secret") as place:
        port = {"5432": place.rpartition(":")[2]}
        check = [port.get(word, word) for word in SERVICES["database"]["healthcheck"]["test"][1:]]
        path = f"{postgresql.binaries()}:{os.environ['PATH']}"
        environment = {"PATH": path, "PGPASSWORD": "secret"}  # which is not asked of whoever is in the container

        def healthy() -> bool:
            return subprocess.run(check, env=environment, capture_output=True, check=False).returncode == 0

        assert not healthy()
        make = ["psql", f"postgresql://{place}/postgres", "--command", COMPOSE["configs"]["databases"]["content"]]
        subprocess.run(make, env=environment, capture_output=True, check=True)
        assert healthy()


def test_the_image_takes_all_that_it_runs() -> None:
    code = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    beside = [path for pattern in ("*.j2", "*.toml") for name in PACKAGES for path in (ROOT / name).rglob(pattern)]
    links = (ROOT / ".package/concord").glob("[!_]*")
    told = {"deployments/entrypoint.sh", "deployments/prefect.yaml", "constraints.txt", "pyproject.toml"}
    told.add(DEPLOYMENTS["learn"]["parameters"]["plan"])
    assert told | {str(path.relative_to(ROOT)) for path in (*code, *beside, *links)} <= set(
        exclude_paths(str(ROOT), IGNORED)
    )


def test_nothing_that_an_operator_lays_beside_the_code_reaches_the_image() -> None:
    """Compose has plans and their tables lie in deployments/plans, from where an image may be built and pushed."""
    folders = ("", ".package/", "artifacts/home/", "tasks/", "flows/", "deployments/", "deployments/plans/")
    names = ("private.csv", "plan.toml", ".env", "key.pem", ".concord/vault/key", "home/ledger.db", "data/a.parquet")
    planted = [folder + name for folder in folders for name in names]
    planted += ["deployments/secrets/database_password", "deployments/plans/data/demo/private.parquet"]
    assert [path for path in planted if not PatternMatcher(IGNORED).matches(path)] == []


def test_the_entrypoint_hands_passwords_over_and_becomes_the_command_or_does_not_start(tmp_path: Path) -> None:
    (secret := tmp_path / "secret").write_text("correct horse\n")
    files = {"PGPASSWORD_FILE": str(secret), "PREFECT_PASSWORD_FILE": str(secret)}
    given = 'printf %s "$PGPASSWORD, $PREFECT_API_AUTH_STRING, $PREFECT_SERVER_API_AUTH_STRING"; exit 3'
    assert entered(files, given) == ("correct horse, concord:correct horse, concord:correct horse", 3)
    assert entered({}, 'printf %s "${PGPASSWORD-none}${PREFECT_API_AUTH_STRING-}"') == ("none", 0)
    for name in files:
        assert entered({name: "/nowhere"}, "echo started") == ("", 1)


def entered(environment: dict[str, str], words: str) -> tuple[str, int]:
    """What a shell command says behind the entrypoint, and its exit status."""
    command = [str(FOLDER / "entrypoint.sh"), "sh", "-c", words]
    path = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=path | environment, capture_output=True, text=True, check=False)
    return done.stdout, done.returncode


def test_pictures_are_small_and_shown() -> None:
    pictures = sorted((FOLDER / "pictures").glob("*.png"))
    assert 0 < len(pictures) <= 5
    page = (FOLDER / "guides/publish.md").read_text(encoding="utf-8")
    for picture in pictures:
        assert f"(../pictures/{picture.name})" in page
        assert picture.stat().st_size <= 120_000
        assert picture.read_bytes().startswith(b"\x89PNG")
