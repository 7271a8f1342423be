"""`tutti sweep run SUITE --find`: the highest concurrency that keeps latency and accuracy."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tutti.cli.flow import run_flow
from tutti.cli.judge.compare import INCONCLUSIVE

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec import Suite


def run_find(
    suite: "Suite", asked: dict[str, Any], models: Path, prefect: bool, as_json: bool
) -> int:
    """Search, and print the answer of each policy; returns the exit code.

    `asked`: fields of `Objectives`; None is the default. The code is 3 where a policy has no
    answer, or one that intervals do not decide. Raises ValidationError, SuiteError, and what a
    sweep does.
    """
    from tutti.flows.find import find_concurrency
    from tutti.tasks.sweeps.search import Objectives

    objectives = Objectives(**{name: value for name, value in asked.items() if value is not None})
    found = run_flow(find_concurrency, prefect, as_json, suite, objectives, models)
    if as_json:
        typer.echo(json.dumps(found))
    decided = all(each["sure"] and each["concurrency"] for each in found["policies"])
    return 0 if decided else INCONCLUSIVE
