"""Settings: the environment variables that Concord reads, each with its meaning, and the servers they name.

A plan names further variables, for its databases: `required` reads them. Nothing else reads the environment;
`artifacts.process` sets it for Prefect, MLflow and our own processes. An empty variable counts as unset, except
CONCORD_LEDGER: otherwise a forgotten value would let another ledger's budget be spent. Servers are checked before
anything depends on them, because their clients retry for minutes.
Checked by tests/artifacts/test_process.py and tests/artifacts/mlflow/test_tracking_store.py.
"""

import os
import socket
from http.client import HTTPException
from pathlib import Path
from typing import Annotated
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import urlopen

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from concord.artifacts.errors import EnvironmentFailed, WrongInput

LEDGER, STORE = "CONCORD_LEDGER", "MLFLOW_TRACKING_URI"
SIGNING_KEY = "CONCORD_SIGNING_KEY"
DEFAULT_HOME = Path(".concord")

Unset, Default = BeforeValidator(lambda text: text or None), BeforeValidator(lambda text: text or DEFAULT_HOME)


class Settings(BaseSettings):
    """The environment's settings.

    home            where everything is kept; `--home` takes precedence
    ledger          database URL of the ledger; without it, HOME/ledger.db
    signing_key     the file of the private key that signs what is published; without it, the home's own key is used
    tracking_uri    MLflow's store or server; without it, HOME/mlflow.db
    results         folder of an object store for cached, sealed results; without it, HOME/results
    trust           a package whose types published students may hold, with all its code; without it, none but those
                    that Concord publishes with scikit-learn
    """

    model_config = SettingsConfigDict(case_sensitive=True, extra="ignore", frozen=True)

    home: Annotated[Path, Default, Field(validation_alias="CONCORD_HOME")] = DEFAULT_HOME
    ledger: Annotated[str | None, Field(validation_alias=LEDGER, min_length=1)] = None
    signing_key: Annotated[str | None, Unset, Field(validation_alias=SIGNING_KEY)] = None
    tracking_uri: Annotated[str | None, Unset, Field(validation_alias=STORE)] = None
    results: Annotated[str | None, Unset, Field(validation_alias="CONCORD_RESULTS")] = None
    trust: Annotated[str | None, Unset, Field(validation_alias="CONCORD_TRUST")] = None

    @classmethod
    def now(cls) -> "Settings":
        """Read the settings from the environment. Raises WrongInput naming a variable that is not valid."""
        try:
            return cls()
        except ValidationError as wrong:
            variable = wrong.errors()[0]["loc"][0]
            raise WrongInput(f"{variable} must name something, and is empty: unset it, or fill it in") from None

    def ledger_of(self, home: Path) -> str:
        """The address of the ledger that a home uses."""
        return self.ledger or own_ledger(home)

    def store_of(self, home: Path) -> str:
        """The address of the MLflow store that a home uses."""
        return self.tracking_uri or sqlite_address(own_store_file(home))


def own_ledger(home: Path) -> str:
    """The address of a home's own ledger, which no other home shares."""
    return sqlite_address(home.absolute() / "ledger.db")


def own_store_file(home: Path) -> Path:
    """The database of a home's own MLflow store."""
    return home.absolute() / "mlflow.db"


def own_store(home: Path) -> bool:
    """Whether a home's MLflow store is its own, not a server or another database."""
    return Settings.now().store_of(home) == sqlite_address(own_store_file(home))


JOURNALS = ("-journal", "-wal", "-shm")
"""Suffixes of SQLite's journals; a journal left behind would be applied to a new database of the same name."""
SERVER_PATIENCE = 10.0
"""Seconds to wait for a server's answer."""
PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306}
"""Kinds of servers that are checked, with their default ports."""


def check_answers(variable: str) -> None:
    """Raise EnvironmentFailed if the environment variable names an HTTP or database server and nothing answers there.

    A refusal, such as of a server that wants a password first, is an answer.
    """
    url = urlsplit(os.environ.get(variable, ""))
    kind = url.scheme.partition("+")[0]
    if kind not in PORTS or not url.hostname:
        return
    place = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2], query=""))  # without a password
    try:
        if kind.startswith("http"):
            with urlopen(f"{place.rstrip('/')}/health", timeout=SERVER_PATIENCE):
                return
        with socket.create_connection((url.hostname, url.port or PORTS[kind]), timeout=SERVER_PATIENCE):
            return
    except HTTPError:
        return
    except (OSError, HTTPException) as failed:
        reason = getattr(failed, "reason", failed)
    raise EnvironmentFailed(
        f"{variable} names {place}, but no server answers there ({reason}): start it, or name another"
    )


def sqlite_address(file: Path, driver: str = "") -> str:
    """The SQLAlchemy address of a SQLite file, by its absolute path; `driver` replaces the default one.

    In an address a `?` begins options, so a path that contains one is written as SQLite's own file address.
    """
    if "?" not in str(file):
        return f"sqlite{driver and '+'}{driver}:///{file}"
    return f"sqlite+{driver or 'pysqlite'}:///file:{quote(str(file))}?uri=true"


def sqlite_file(address: str) -> Path | None:
    """The database file that an address names, if it is SQLite's."""
    kind, _, place = address.partition(":///")
    database, _, options = place.partition("?")
    if kind.partition("+")[0] != "sqlite" or not database:
        return None
    if database.startswith("file:") and "uri=true" in options.split("&"):
        return Path(unquote(database.removeprefix("file:")))
    return Path(database)


def required(variable: str, what: str) -> str:
    """The value of a variable. Raises EnvironmentFailed if it is empty, naming it and `what` it must hold."""
    if not (value := os.environ.get(variable)):
        raise EnvironmentFailed(f"the environment variable {variable} must hold {what}")
    return value
