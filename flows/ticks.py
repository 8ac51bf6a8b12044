"""Ticks: the times of a cron expression."""

import asyncio
from datetime import datetime

from concord.artifacts.errors import WrongInput


def next_time(cron: str, timezone: str, after: datetime, field: str = "--cron") -> datetime:
    """The first time after `after` that the expression in `field` matches. Raises WrongInput if there is none."""
    from prefect.server.schemas.schedules import CronSchedule

    try:
        dates = asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(2, start=after))
    except ValueError:
        rule = f"{field} must be five fields that some day meets, such as '0 3 * * *', and the time zone such as UTC"
        raise WrongInput(f"{rule}, got {cron!r} and {timezone!r}") from None
    return next(date for date in dates if date > after)
