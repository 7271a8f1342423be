"""`tutti sweep search`, the budget flags, and the old spellings of both."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tutti.cli.failures import ExitCode
from tutti.cli.main import app
from tutti.cli.sweep import run as run_module
from tutti.cli.sweep import search as search_module
from tutti.cli.sweep.search import search as search_verb
from tutti.tasks.sweeps.spec import Suite

ANSWERED = {"policies": [{"concurrency": 8, "sure": True, "whole": True}]}
UNSUPPORTED = {"policies": [{"concurrency": 8, "sure": False, "whole": True}]}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of the searches and sweeps that were started; nothing is measured."""
    calls: list[Any] = []

    def run_flow(flow: Any, prefect: bool, as_json: bool, *arguments: Any) -> Any:
        calls.append(arguments)
        return ANSWERED

    def measured(suite: Suite, *_: Any) -> ExitCode:
        calls.append((suite,))
        return ExitCode.DONE

    monkeypatch.setattr(search_module, "run_flow", run_flow)
    monkeypatch.setattr(run_module, "measured", measured)
    return calls


def tutti(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


NEW = ("sweep", "search", "smoke", "--max-p95-s", "1.5", "--min-accuracy", "0.5", "--highest", "9")
OLD = ("sweep", "run", "smoke", "--find", "--latency", "1.5", "--accuracy", "0.5", "--highest", "9")


@pytest.mark.parametrize("command", [NEW, OLD], ids=["new", "old"])
def test_a_search_gets_its_limits(command: tuple[str, ...], started: list[Any]) -> None:
    done = tutti(*command, "--lowest", "2")
    assert done.exit_code == 0, done.output
    ((suite, objectives, _),) = started
    assert suite.name == "smoke"
    assert (objectives.step_latency_p95, objectives.accuracy) == (1.5, 0.5)
    assert (objectives.lowest, objectives.highest) == (2, 9)


def test_a_search_takes_the_flags_of_a_run(started: list[Any]) -> None:
    """All that change a suite; each verb's own are of its own."""
    given = ("--model", "large", "--concurrency", "4,8", "--policies", "cap")
    done = tutti(*NEW, *given, "--temperature", "0.5", "--max-tokens", "7")
    assert done.exit_code == 0, done.output
    ((suite, objectives, _),) = started
    assert (suite.model, suite.concurrency, suite.policies) == ("large", (4, 8), ("cap",))
    assert (suite.sampling.temperature, suite.sampling.max_tokens) == (0.5, 7)
    assert objectives.highest == 9
    run, search = (inspect.signature(each).parameters for each in (run_module.run, search_verb))
    own = {"night", "dry_run", "find", "latency", "accuracy", "minutes", "usd"}
    assert set(run) - own <= set(search)


def test_an_old_spelling_works_and_says_its_new_one_on_one_line(started: list[Any]) -> None:
    new, old = tutti(*NEW), tutti(*OLD, "--minutes", "3")
    assert new.stderr == ""
    (line,) = old.stderr.splitlines()
    assert line.startswith("tutti: deprecated: --find is now `tutti sweep search`; ")
    for words in ("--latency is now `sweep search --max-p95-s`", "--minutes is now --budget-min"):
        assert words in line
    assert started[1][0].budget.minutes == 3


@pytest.mark.parametrize(
    ("flags", "deprecated"),
    [
        (("--budget-minutes", "5", "--budget-usd", "2"), ""),
        (
            ("--minutes", "5", "--usd", "2"),
            "tutti: deprecated: --minutes is now --budget-minutes; --usd is now --budget-usd\n",
        ),
        (
            ("--minutes", "9", "--budget-minutes", "5", "--budget-usd", "2"),
            "tutti: deprecated: --minutes is now --budget-minutes\n",
        ),
    ],
)
def test_a_budget_in_both_spellings(
    flags: tuple[str, ...], deprecated: str, started: list[Any]
) -> None:
    """The new spelling wins where both are given."""
    done = tutti("sweep", "run", "smoke", *flags)
    assert (done.exit_code, done.stderr) == (0, deprecated)
    ((suite,),) = started
    assert (suite.budget.minutes, suite.budget.usd) == (5, 2)


def test_help_shows_the_new_spellings_only() -> None:
    run, search = tutti("sweep", "run", "--help").output, tutti("sweep", "search", "--help").output
    for flag in ("--max-p95-s", "--min-accuracy", "--lowest", "--highest", "--budget-minutes"):
        assert flag in search
    for flag in ("--find", "--latency", "--accuracy", "--highest", " --minutes", " --usd"):
        assert flag not in run


def test_limits_without_a_search_are_bad_usage(started: list[Any]) -> None:
    done = tutti("sweep", "run", "smoke", "--latency", "2")
    assert done.exit_code == 2 and not started
    assert "limits belong to `tutti sweep search`" in done.stderr


def test_an_unsupported_answer_is_exit_4(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "run_flow", lambda *_: UNSUPPORTED)
    assert tutti(*NEW).exit_code == 4
    assert tutti(*OLD).exit_code == 4


def test_a_search_of_an_unknown_suite_is_bad_usage(started: list[Any], tmp_path: Path) -> None:
    done = tutti("sweep", "search", str(tmp_path / "nowhere.yaml"))
    assert done.exit_code == 2 and "nowhere.yaml" in done.stderr and not started
