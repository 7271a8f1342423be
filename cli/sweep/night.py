"""Runs a night file for `tutti sweep run`: measures and judges its stages as on the schedule."""

import asyncio
import json
import sys
from contextlib import nullcontext, redirect_stdout
from datetime import date
from pathlib import Path

from tutti.cli.failures import ExitCode, UsageError, code_of


def run_night(
    path: Path, models: Path, prefect: bool, as_json: bool, night: date | None = None
) -> ExitCode:
    """Measure the missing part of a night; return the exit code of its verdict.

    `night` is its date; None is the last planned night. Raises UsageError for a Prefect run,
    SuiteError and RegistryError for an invalid file.
    """
    if prefect:
        raise UsageError("to run a night under Prefect, use the deployment nightly: `make ui`")
    from tutti.flows.nightly import nightly

    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        found = asyncio.run(nightly.fn(path, models, night))
    if as_json:
        print(json.dumps(found))
    code = code_of([found["verdict"]])
    missing = code == ExitCode.INCONCLUSIVE and not found["whole"]
    return ExitCode.INCOMPLETE if missing else code
