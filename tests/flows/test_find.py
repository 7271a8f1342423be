"""Tests of the search for the highest concurrency through the whole chain: gateway, runner, store.

When more than two requests run, the engine slows down until none is left.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble, completion, is_first_call
from tutti import storage
from tutti.cli.sweep import run
from tutti.flows.find import find_concurrency
from tutti.tasks.sweeps.results import intervals
from tutti.tasks.sweeps.run import early_stop
from tutti.tasks.sweeps.search.search import Objectives
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError

ROOM = 2
SLOW_S = 1.5
QUICK_S = 0.02  # so long that sessions meet also where the machine is busy
LIMIT_S = 1.0
ITEMS = 48
ASKED = Objectives(step_latency_p95=LIMIT_S, accuracy=0.4, highest=8, resolution=1.0)


class Engine:
    """Engine that is correct for three in four items and slow once more than `ROOM` requests run,
    until none does."""

    def __init__(self) -> None:
        self.running = self.asked = 0
        self.crowded = False

    async def __call__(self, _: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if is_first_call(body):
            return web.json_response(completion("ready"))
        self.asked += 1
        self.running += 1
        self.crowded |= self.running > ROOM
        try:
            await asyncio.sleep(SLOW_S if self.crowded else QUICK_S)
        finally:
            self.running -= 1
            self.crowded &= self.running > 0
        number = int(body["messages"][0]["content"].split()[2])
        return web.json_response(completion(f"#### {number + (number >= 0.75 * ITEMS)}"))


@pytest.fixture
async def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Engine, Suite, Path]]:
    """Yield the engine, a suite of one benchmark on it, and the registry; small cells suffice."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.setattr(intervals, "MIN_TAIL_STEPS", 20)
    monkeypatch.setattr(early_stop, "LEAST_STEPS", 8)
    monkeypatch.setattr(early_stop, "ROUNDS", 2)
    rows = [{"question": f"What is {i} ?", "answer": f"#### {i}"} for i in range(ITEMS)]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    double, engine = EngineDouble(), Engine()
    double.reply = engine
    async with TestServer(double.application()) as server:
        models = tmp_path / "models.yaml"
        endpoint: dict[str, Any] = {"provider": "openai", "served_name": "m"}
        endpoint |= {"endpoint": str(server.make_url("/v1"))}
        endpoint |= {"context_tokens": 4096, "api_key_env": None}
        models.write_text(yaml.safe_dump({"models": {"mine": endpoint}}))
        suite = Suite(
            name="sought",
            benchmark="gsm8k",
            model="mine",
            policies=("passthrough",),
            concurrency=(1, 64),
            data={"source": tmp_path},
            limits={"max_turns": 1},
        )
        yield engine, suite, models


@pytest.mark.slow
async def test_the_highest_level_is_found_and_found_again(
    place: tuple[Engine, Suite, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Levels 1 and 2 meet the objectives and 4 ends early; a second search measures nothing."""
    engine, suite, models = place
    found = await find_concurrency.fn(suite, ASKED, models)
    (policy,) = found["policies"]
    assert (policy["policy"], policy["concurrency"], policy["sure"]) == ("passthrough", 2, True)
    outcomes = [(each["concurrency"], each["outcome"]) for each in policy["probes"]]
    assert outcomes == [(1, "met"), (2, "met"), (4, "not met")]
    assert policy["probes"][2]["reason"] == "over-saturated"
    assert 0 < policy["step_latency_p95"]["high"] <= LIMIT_S
    assert policy["accuracy"]["value"] == 0.75 and policy["accuracy"]["low"] >= 0.4
    printed = capsys.readouterr().out
    assert "passthrough: probed 1 met, 2 met, 4 not met" in printed
    cells = storage.query("select concurrency, status, reason from cells order by 1")
    assert [(row["concurrency"], row["status"]) for row in cells] == [
        (1, "finished"), (2, "finished"), (4, "ended_early"),
    ]  # fmt: skip
    assert "steps took longer than 1 s (5 % would be allowed)" in cells[2]["reason"]
    asked = engine.asked
    assert asked < 3 * ITEMS + 20, "the last cell did not run to its end"
    assert await find_concurrency.fn(suite, ASKED, models) == found
    assert engine.asked == asked
    assert len(storage.query("select distinct sweep_id from cells")) == 1


@pytest.mark.slow
async def test_a_spent_budget_breaks_it_off_and_the_next_run_goes_on(
    place: tuple[Engine, Suite, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measurements are stored, and no result is reported."""
    engine, suite, models = place
    poor = Suite.model_validate(suite.model_dump() | {"budget": {"minutes": 0.0001}})
    (policy,) = (await find_concurrency.fn(poor, ASKED, models))["policies"]
    assert (policy["concurrency"], policy["sure"], policy["probes"]) == (None, False, [])
    assert policy["said"].startswith("broken off at 1: ")
    assert policy["said"].endswith("samples are left; the same command goes on")
    assert engine.asked < ITEMS
    narrow = ASKED.model_copy(update={"highest": 1})
    (policy,) = (await find_concurrency.fn(suite, narrow, models))["policies"]
    assert policy["said"] == "1, the highest asked"
    assert engine.asked == ITEMS


async def test_a_grid_is_refused(place: tuple[Engine, Suite, Path]) -> None:
    """A search needs one benchmark and one model."""
    *_, models = place
    grid = Suite(name="grid", benchmarks=("gsm8k", "aime-24"))
    with pytest.raises(SuiteError, match="a search is of one of each"):
        await find_concurrency.fn(grid, ASKED, models)


@pytest.mark.parametrize(
    ("policies", "code"),
    [
        ([{"concurrency": 2, "sure": True}], 0),
        ([{"concurrency": 2, "sure": True}, {"concurrency": 4, "sure": False}], 4),
        ([{"concurrency": None, "sure": True}], 4),
        (
            [
                {"concurrency": 2, "sure": False},
                {"concurrency": None, "sure": False, "whole": False},
            ],
            5,
        ),
    ],
)
def test_the_verb_says_by_its_exit_code_whether_there_is_an_answer(
    policies: list[dict[str, Any]],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is 4 if a policy has no answer or one by values alone, and 5 if a probe was
    interrupted; standard output has only JSON."""
    policies = [{"whole": True} | each for each in policies]
    given: list[Any] = []

    async def answer(*arguments: Any) -> dict[str, Any]:
        given.extend(arguments)
        return {"sweep": "sought", "policies": policies}

    monkeypatch.setattr("tutti.cli.base.flow.as_flow_run", answer)
    asked = {"step_latency_p95": 1.5, "highest": 16}
    assert run.run_search(Suite(), asked, Path("models.yaml"), False, True) == code
    assert json.loads(capsys.readouterr().out)["policies"] == policies
    assert given[3] == Objectives(step_latency_p95=1.5, highest=16)
