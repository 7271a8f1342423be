"""Tests that an engine that dies in a cell is restarted as often as the suite permits, and then the
run ends."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sweeps.run.test_interleaved import registry
from tutti import storage
from tutti.storage import query
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.platform.progress.runs import Run
from tutti.tasks.serving import EngineFailed, engines
from tutti.tasks.sweeps.plan.deployment import Deployment
from tutti.tasks.sweeps.run import sweep
from tutti.tasks.sweeps.run.runner import PAUSED, run_cell
from tutti.tasks.sweeps.run.sweep import RESTARTED, run_suite
from tutti.tasks.sweeps.spec.suite import Suite

DEATH = "the engine died while serving (exit code -9); its log says:\nnothing"


def suite_of(tmp_path: Path, **execution: Any) -> Suite:
    """Return one cell of a small GSM8K."""
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    (folder / "test.jsonl").write_text('{"question": "1 + 1?", "answer": "#### 2"}\n')
    return Suite(
        name="restarts",
        benchmark="gsm8k",
        model="a",
        policies=("passthrough",),
        concurrency=(1,),
        data={"source": folder},
        limits={"max_turns": 1},
        execution=execution | {"restart_pause_s": 0},
    )


async def measured(
    tmp_path: Path, suite: Suite, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> Any:
    """Run the suite with an engine that dies `deaths` times; return its home and the restarts."""
    restart = Deployment.restart
    seen = SimpleNamespace(deaths=0, restarts=0)

    async def dying(*args: Any, **more: Any) -> Any:
        if seen.deaths < deaths:
            seen.deaths += 1
            raise EngineFailed(DEATH)
        return await run_cell(*args, **more)

    async def counted(bench: Deployment) -> None:
        seen.restarts += 1
        await restart(bench)

    monkeypatch.setattr(sweep, "run_cell", dying)
    monkeypatch.setattr(Deployment, "restart", counted)
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        async with registry(tmp_path, "a") as models:
            run = Run(catalog, "run:1", StageLog())
            try:
                await run_suite(suite, models, None, run)
            finally:
                seen.home = catalog.home
    return seen


async def test_a_reason_with_square_brackets_is_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An endpoint's error page is part of the reason and is shown unchanged."""
    monkeypatch.setattr(f"{__name__}.DEATH", "it said [red]x[/red] [/] y")
    seen = await measured(tmp_path, suite_of(tmp_path, restarts=1), monkeypatch, deaths=1)
    assert seen.restarts == 1
    said = " ".join("".join(capsys.readouterr()).split())
    assert "it said [red]x[/red] [/] y; start 1 of 1 anew" in said


async def test_the_cell_goes_on_after_a_restart_that_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is a row for the restart, and one that keeps windows from spanning it."""
    seen = await measured(tmp_path, suite_of(tmp_path, restarts=2), monkeypatch, deaths=2)
    assert seen.restarts == 2
    said = " ".join("".join(capsys.readouterr()).split())
    assert "the engine died while serving (exit code -9); start 2 of 2 anew" in said
    rows = query(
        "select name, value from server_metrics where name = $n order by value",
        seen.home,
        {"n": RESTARTED},
    )
    assert [row["value"] for row in rows] == [1.0, 2.0]
    paused = "select value from server_metrics where name = $n"
    assert query(paused, seen.home, {"n": PAUSED}) == [{"value": 1.0}] * 2
    (cell,) = query("select status from cells", seen.home)
    assert cell["status"] == "finished"


async def test_an_engine_with_trained_weights_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted engine would respond with the earlier weights in a cell of the current ones."""
    engine = SimpleNamespace(trained_by="train:1", engine_id="engine:1", launch=None)
    trained = property(lambda _: (engine,))
    monkeypatch.setattr(Deployment, "started", trained)
    monkeypatch.setattr(engines, "needs_check", lambda _: False)
    monkeypatch.setattr(engines, "place_engines", lambda _: [])
    monkeypatch.setattr("tutti.tasks.sweeps.plan.deployment.place_engines", lambda _: [])
    monkeypatch.setattr("tutti.tasks.sweeps.plan.deployment.check_engines", lambda _: [])
    suite = suite_of(tmp_path, restarts=2)
    with pytest.raises(EngineFailed, match="the engine died"):
        await measured(tmp_path, suite, monkeypatch, deaths=1)


async def test_after_the_last_restart_the_run_ends_and_the_cell_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the engine's death; an incomplete cell gives no result."""
    suite = suite_of(tmp_path, restarts=1)
    with pytest.raises(EngineFailed, match="the engine died while serving"):
        await measured(tmp_path, suite, monkeypatch, deaths=2)
    home = storage.Home(tmp_path / "store")
    (cell,) = query("select status from cells", home)
    assert cell["status"] != "finished"
