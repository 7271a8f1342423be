"""Tests of nights from the command line: exit codes, JSON, and manual acceptance."""

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tutti import storage
from tutti.cli.base.failures import ExitCode, UsageError
from tutti.cli.main import app
from tutti.cli.sweep.run import run_night
from tutti.flows.nightly import nightly
from tutti.tasks.nights.record import Record, enter_night, night_records
from tutti.tasks.nights.spec import Night

NIGHT = Night("nightly", date(2026, 11, 21))


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Catalog]:
    """Yield a store with one night whose verdict is worse."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with storage.open_catalog() as catalog:
        enter_night(catalog, Record(NIGHT, "worse", "full: less", None, True))
        yield catalog


def tutti(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_a_night_is_accepted_by_hand(store: storage.Catalog) -> None:
    """The reason is stored; a missing reason or an unknown night is a usage error."""
    done = tutti("gate", "--accept", NIGHT.label, "--why", "harder tasks", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"night": NIGHT.label, "accepted": "by hand: harder tasks"}
    assert night_records(store, "nightly")[NIGHT.date].accepted == "by hand: harder tasks"
    for arguments, words in (
        (("--accept", NIGHT.label), "--why"),
        (("--accept", "friday", "--why", "x"), f"nights: {NIGHT.label}"),
        ((), "name a file of gates and a sweep"),
    ):
        done = tutti("gate", *arguments)
        assert done.exit_code == 2 and words in done.stderr, done.output


def test_a_night_is_planned_stage_by_stage(tmp_path: Path) -> None:
    rows = [{"question": f"What is {i}?", "answer": f"#### {i}"} for i in range(3)]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    models = tmp_path / "models.yaml"
    entry: dict[str, Any] = {"provider": "openai", "endpoint": "http://127.0.0.1:9/v1"}
    entry |= {"api_key_env": None, "context_tokens": 4096}
    models.write_text(json.dumps({"models": {"pocket": entry}}))
    suite: dict[str, Any] = {"benchmark": "gsm8k", "policies": ["passthrough"], "concurrency": [8]}
    suite |= {"data": {"source": str(tmp_path)}}
    file = tmp_path / "night.yaml"
    stages = {"smoke": {"suite": suite}, "full": {"suite": suite | {"concurrency": [8, 16]}}}
    file.write_text(json.dumps({"name": "short", "stages": stages}))
    done = tutti("sweep", "plan", str(file), "--models", str(models), "--json")
    assert done.exit_code == 0, done.output
    planned = json.loads(done.stdout)["stages"]
    assert [name.rpartition("-")[2] for name in planned] == ["smoke", "full"]
    assert all(name.startswith("short-20") for name in planned)
    assert [[cell["missing"] for cell in each["cells"]] for each in planned.values()] == [
        [3], [3, 3],
    ]  # fmt: skip
    text = tutti("sweep", "plan", str(file), "--models", str(models))
    assert text.exit_code == 0 and text.stdout.count(" cells to run, ") == 2, text.output
    for flag in (["--limit", "1"], ["--temperature", "0"], ["--ids", "a"]):
        done = tutti("sweep", "plan", str(file), "--models", str(models), *flag)
        assert done.exit_code == 2 and "takes no flags that change a suite" in done.stderr


@pytest.mark.parametrize(
    ("verdict", "whole", "code"),
    [
        ("better", True, ExitCode.DONE),
        ("same", True, ExitCode.DONE),
        ("worse", True, ExitCode.WORSE),
        ("worse", False, ExitCode.WORSE),
        ("inconclusive", True, ExitCode.INCONCLUSIVE),
        ("inconclusive", False, ExitCode.INCOMPLETE),
    ],
)
def test_a_night_tells_by_its_verdict(
    verdict: str,
    whole: bool,
    code: ExitCode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Standard output has only JSON. Cells that were not measured are listed to be run again."""
    shown = {"night": "n", "verdict": verdict, "whole": whole}

    async def measured(path: Path, models: Path, night: date | None) -> dict[str, Any]:
        print("a stage of the night")
        return shown | {"night": path.stem}

    monkeypatch.setattr(nightly, "fn", measured)
    assert run_night(Path("n.yaml"), Path("models.yaml"), False, True) == code
    assert json.loads(capsys.readouterr().out) == shown
    with pytest.raises(UsageError, match="deployment nightly"):
        run_night(Path("n.yaml"), Path("models.yaml"), True, False)
