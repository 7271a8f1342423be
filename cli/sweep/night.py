"""A night file under `tutti sweep run`: its stages are measured and judged as on the schedule."""

import asyncio
import json
import sys
from contextlib import nullcontext, redirect_stdout
from datetime import date
from pathlib import Path

from tutti.cli.failures import UsageError


def run_night(
    path: Path, models: Path, prefect: bool, as_json: bool, night: date | None = None
) -> bool:
    """Measure what is missing of a night; whether its verdict is better or the same.

    `night` is its date, else the last one that was planned. Raises UsageError for a Prefect run,
    SuiteError and RegistryError where a file is wrong.
    """
    if prefect:
        raise UsageError("a night runs under Prefect as the deployment nightly: `make ui`")
    from tutti.flows.nightly import nightly

    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        found = asyncio.run(nightly.fn(path, models, night))
    if as_json:
        print(json.dumps(found))
    return found["verdict"] in ("better", "same")
