"""Test that a training that its time limit ends repeatedly has the losses of an uninterrupted
one."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

from tests.training.trainer.pocket import settings
from tutti.errors import ExitCode
from tutti.tasks.training.trainer import __main__ as process
from tutti.tasks.training.trainer.fit import OutOfTime, fit

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]
BATCH = {"sequences": 4, "tokens": 256}


def losses(rows: list[dict[str, Any]]) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in rows if "loss" in row]


def test_limits_change_no_loss(tmp_path: Path) -> None:
    """The training saves only at its limits, and each submission continues from the end of the
    last."""
    asked = settings(tmp_path, steps=8, save_every_s=3600, batch=BATCH)
    whole: list[dict[str, Any]] = []
    fit(asked, tmp_path / "whole", tmp_path / "whole.pt", whole.append)
    ends: list[int] = []
    while True:
        limited = asked.model_copy(update={"stop_at": 0.0})
        rows: list[dict[str, Any]] = []

        def report(
            row: dict[str, Any], rows: list[dict[str, Any]] = rows, limited: Any = limited
        ) -> None:
            rows.append(row)
            fresh = [each for each, _ in losses(rows) if not ends or each > ends[-1]]
            if len(fresh) >= 3:  # the limit comes after three steps of each submission
                object.__setattr__(limited, "stop_at", 1.0)

        object.__setattr__(limited, "stop_at", time.time() + 3600)
        try:
            card = fit(limited, tmp_path / "out", tmp_path / "state.pt", report)
            break
        except OutOfTime as saved:
            ends.append(saved.step)
    assert ends == [3, 6]
    assert losses(card["log"]) == losses(whole) and len(losses(whole)) == 8


def test_the_process_ends_with_the_code_that_submits_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process's last line has the step up to which it was saved."""
    file = tmp_path / "settings.json"
    file.write_text(settings(tmp_path).model_dump_json())

    def out_of_time(*_: object) -> None:
        raise OutOfTime(7)

    monkeypatch.setattr(process, "fit", out_of_time)
    words = ["trainer", "--settings", str(file), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        process.main()
    assert ended.value.code == ExitCode.INCOMPLETE
    assert json.loads(capsys.readouterr().out) == {"saved": 7}


@pytest.mark.parametrize(("stop_at", "steps"), [(29.9, 1), (33.9, 2), (37.9, 3), (41.9, 4)])
def test_it_ends_before_the_limit_by_the_pace_of_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: float, steps: int
) -> None:
    """Two of the longest steps so far must fit into the remaining time; the first takes 10 s, each
    other 4 s."""
    now = [0.0]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr(f"{fit.__module__}.time", clock)

    def report(row: dict[str, Any]) -> None:
        if "loss" in row:
            now[0] += 10.0 if row["step"] == 1 else 4.0

    asked = settings(tmp_path, steps=10, save_every_s=3600, batch=BATCH, stop_at=stop_at)
    with pytest.raises(OutOfTime) as saved:
        fit(asked, tmp_path / "out", tmp_path / "state.pt", report)
    assert saved.value.step == steps


def test_a_limit_before_the_first_step_is_an_error(tmp_path: Path) -> None:
    """If it were resubmitted, such a training would never end."""
    asked = settings(tmp_path, steps=3, stop_at=time.time())
    with pytest.raises(ValueError, match="not one step fits in"):
        fit(asked, tmp_path / "out", tmp_path / "state.pt", lambda row: None)
