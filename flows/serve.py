"""The command `serve`: a schedule without a server. One process extends a session when its cron expression says so.

A run is one `concord extend`: what it begins is finished by the next run, however this process ends. A table that is
wrong, or a machine that fails, is told, and the next time is waited for; a session that has ended, or something that
does not verify, ends the service with the exit status of `extend`.
"""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

from prefect.server.schemas.schedules import CronSchedule
from rich.console import Console

from artifacts.errors import EnvironmentFailed, WrongInput
from flows.outcome import in_words
from flows.start import latest, start_extension
from tasks.recipe import check_open
from tasks.release import Door

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
NAP = 60.0
"""Seconds slept at most: a clock that was set, or a machine that slept, is noticed."""


def serve(session: str, public: Path, home: Path, *, cron: str, timezone: str) -> None:
    """Extend a session whenever the time has come, until it is told to end (flows/leaving.py).

    session   its id, or the domain whose latest session is meant
    cron      five fields, read in `timezone`, a name of the IANA database
    Raises WrongInput where there is no such session, time or zone, and what `extend` raises but for public tables.
    """
    check_open(latest(Door.of(home), session))
    while True:
        moment = next_time(cron, timezone, datetime.now(UTC))
        out.print(f"next run at {moment:%Y-%m-%d %H:%M:%S %Z}", soft_wrap=True)
        _wait(moment)
        try:
            summary = start_extension(session, public, home)
        except (EnvironmentFailed, WrongInput) as told:
            err.print(f"concord: {told}", soft_wrap=True, markup=False)
        else:
            out.print(in_words(summary), soft_wrap=True)


def next_time(cron: str, timezone: str, after: datetime) -> datetime:
    """The first moment after `after` that the expression means. Raises WrongInput where it means none."""
    try:
        dates = asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(2, start=after))
    except ValueError:
        rule = "--cron must be five fields that some day meets, such as '0 3 * * *', and --timezone a name such as UTC"
        raise WrongInput(f"{rule}, got {cron!r} and {timezone!r}") from None
    return next(date for date in dates if date > after)


def _wait(moment: datetime) -> None:
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(min(left, NAP))
