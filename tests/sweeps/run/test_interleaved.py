"""Tests of several models of one grid: one after another, or level by level with all of them
running."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble
from tutti import storage
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.platform.progress.runs import Run
from tutti.tasks.serving.registry import pick_models
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.plan import plan_of
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.run import sweep
from tutti.tasks.sweeps.run.sweep import _in_blocks, _PlanRun, run_suite
from tutti.tasks.sweeps.spec.suite import Suite

ROWS = [{"question": f"What is {i} + 1?", "answer": f"#### {i + 1}"} for i in range(2)]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Return two models at two levels of a small GSM8K."""
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return Suite(
        name="grid",
        benchmarks=("gsm8k",),
        models=("a", "b"),
        policies=("passthrough", "cap"),
        concurrency=(1, 2),
        data={"source": tmp_path},
        limits={"max_turns": 1},
    )


@asynccontextmanager
async def registry(tmp_path: Path, *names: str) -> AsyncIterator[Path]:
    """Yield a models.yaml of working endpoints."""
    async with TestServer(EngineDouble().application()) as server:
        common: dict[str, Any] = {"provider": "openai", "context_tokens": 4096}
        common |= {"api_key_env": None, "endpoint": str(server.make_url("/v1"))}
        models = {name: common | {"served_name": name} for name in names}
        file = tmp_path / "models.yaml"
        file.write_text(yaml.safe_dump({"models": models}))
        yield file


async def test_endpoints_alternate_level_by_level(tmp_path: Path, suite: Suite) -> None:
    """Two gateways run at once, and the models' cells alternate."""
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        async with registry(tmp_path, "a", "b") as models:
            run = Run(catalog, "run:1", StageLog())
            sweep_id = await run_suite(suite, models, None, run)
        rows = storage.query(
            "select model, concurrency, status from cells order by started_at", catalog.home
        )
        assert [(row["model"], row["concurrency"]) for row in rows] == [
            ("a", 1), ("a", 1), ("b", 1), ("b", 1), ("a", 2), ("a", 2), ("b", 2), ("b", 2),
        ]  # fmt: skip
        assert {row["status"] for row in rows} == {"finished"}
        assert storage.query("select count(distinct sweep_id) as n from cells", catalog.home) == [
            {"n": 1}
        ]
        assert sweep_id.startswith("sweep:")


def test_engines_of_this_machine_take_turns_unless_asked(tmp_path: Path, suite: Suite) -> None:
    """A laptop has room for one engine at a time."""
    file = tmp_path / "models.yaml"
    engine = {"kv_blocks": 8, "max_sequences": 4, "max_batched_tokens": 64}
    entry: dict[str, Any] = {"provider": "vllm", "checkpoint": str(tmp_path), "context_tokens": 64}
    entry |= {"engine": engine}
    file.write_text(yaml.safe_dump({"models": {"a": entry, "b": entry}}))
    every, entries = suite.parts(), pick_models(file, ("a", "b")).values()
    turns = [[part.model for part in some] for some in sweep._rounds(suite, every, entries)]
    assert turns == [["a"], ["b"]]
    together = suite.with_fields({"interleave": True})
    turns = [[part.model for part in some] for some in sweep._rounds(together, every, entries)]
    assert turns == [["a", "b"]]


def test_blocks_of_a_plan_are_its_levels_and_repeats(suite: Suite, tmp_path: Path) -> None:
    """Within a block a model's policies stay together, in its plan's order."""
    several = suite.with_fields({"repeats": 2})
    plans = [
        plan_of(
            part,
            CellConfig(TaskSet.read(part), "engine:1", f"model:{part.model}", part.model),
            several,
        )
        for part in several.parts()
    ]
    anything: Any = None
    runs = [_PlanRun(plan, anything) for plan in plans]
    for run in runs:
        run.missing = run.plan.cells
    found = [(c.repeat, c.concurrency, r.plan.config.model_name) for r, c in _in_blocks(runs)]
    assert found[::2] == [
        (repeat, level, model) for repeat in (0, 1) for level in (1, 2) for model in ("a", "b")
    ]
