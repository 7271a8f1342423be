"""Schedules: cron, with at most one night a date."""

from datetime import datetime

from cronsim import CronSim, CronSimError


def check_cron(cron: str) -> None:
    """Raises ValueError for what is no cron of five fields, or plans two nights on one date."""
    if len(cron.split()) != 5:
        raise ValueError("needs five fields: minute, hour, day, month, weekday")
    try:
        times = CronSim(cron, datetime(2024, 1, 1))
        first = [next(times) for _ in range(8)]
    except (CronSimError, StopIteration) as error:
        raise ValueError(f"not a schedule: {error}") from None
    if len({each.date() for each in first}) < len(first):
        raise ValueError("plans two nights on one date; a night is named by its date")
