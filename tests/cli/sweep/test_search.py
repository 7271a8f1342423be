"""Tests of `tutti sweep search`, the budget flags, and the old spellings of both."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tutti.cli.base.failures import ExitCode
from tutti.cli.main import app
from tutti.cli.sweep import run
from tutti.cli.sweep import run as run_module
from tutti.cli.sweep.run import search as search_verb
from tutti.tasks.sweeps.spec import Suite

ANSWERED = {"policies": [{"concurrency": 8, "sure": True, "whole": True}]}
UNSUPPORTED = {"policies": [{"concurrency": 8, "sure": False, "whole": True}]}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the arguments of the started searches and sweeps; nothing is measured."""
    calls: list[Any] = []

    def run_flow(flow: Any, prefect: bool, as_json: bool, *arguments: Any) -> Any:
        calls.append(arguments)
        return ANSWERED

    def measured(suite: Suite, *_: Any) -> ExitCode:
        calls.append((suite,))
        return ExitCode.DONE

    monkeypatch.setattr(run, "run_flow", run_flow)
    monkeypatch.setattr(run_module, "measured", measured)
    return calls


def tutti(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


NEW = ("sweep", "search", "smoke", "--max-p95-s", "1.5", "--min-accuracy", "0.5", "--highest", "9")


def test_a_search_gets_its_limits(started: list[Any]) -> None:
    done = tutti(*NEW, "--lowest", "2")
    assert done.exit_code == 0, done.output
    ((suite, objectives, _),) = started
    assert suite.name == "smoke"
    assert (objectives.step_latency_p95, objectives.accuracy) == (1.5, 0.5)
    assert (objectives.lowest, objectives.highest) == (2, 9)


def test_a_search_takes_the_flags_of_a_run(started: list[Any]) -> None:
    """A search accepts all flags that change a suite; the other flags of each verb are its own."""
    given = ("--model", "large", "--concurrency", "4,8", "--policies", "cap")
    done = tutti(*NEW, *given, "--temperature", "0.5", "--max-tokens", "7")
    assert done.exit_code == 0, done.output
    ((suite, objectives, _),) = started
    assert (suite.model, suite.concurrency, suite.policies) == ("large", (4, 8), ("cap",))
    assert (suite.sampling.temperature, suite.sampling.max_tokens) == (0.5, 7)
    assert objectives.highest == 9
    run, search = (inspect.signature(each).parameters for each in (run_module.run, search_verb))
    assert set(run) - {"night", "dry_run"} <= set(search)


def test_a_run_takes_a_budget(started: list[Any]) -> None:
    done = tutti("sweep", "run", "smoke", "--budget-minutes", "5", "--budget-usd", "2")
    assert (done.exit_code, done.stderr) == (0, "")
    ((suite,),) = started
    assert (suite.budget.minutes, suite.budget.usd) == (5, 2)


def test_help_shows_the_limits_of_a_search() -> None:
    search = tutti("sweep", "search", "--help").output
    for flag in ("--max-p95-s", "--min-accuracy", "--lowest", "--highest", "--budget-minutes"):
        assert flag in search


def test_an_unsupported_answer_is_exit_4(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run_flow", lambda *_: UNSUPPORTED)
    assert tutti(*NEW).exit_code == 4


def test_a_search_of_an_unknown_suite_is_bad_usage(started: list[Any], tmp_path: Path) -> None:
    done = tutti("sweep", "search", str(tmp_path / "nowhere.yaml"))
    assert done.exit_code == 2 and "nowhere.yaml" in done.stderr and not started
