"""Tests of a training's page: it has the stored data, with n and intervals, and nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import NewCatalog
from tutti import storage
from tutti.errors import UsageError
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.reporting import TrainingReport, live_view, publish_if_recorded, steps_recorded
from tutti.tasks.reporting.training.curves import POINTS, curve_plots, thinned
from tutti.tasks.reporting.training.page import build_training_report

POLICY, SET = "checkpoint:00000000000000aa", "checkpoint:00000000000000bb"
PAIRED = {
    "difference": 0.4, "ci_low": 0.3, "ci_high": 0.5, "n": 100, "p": 1e-9,
    "test": "exact McNemar", "verdict": "better", "reason": "the interval excludes 0",
}  # fmt: skip
CARD: dict[str, Any] = {
    "name": "<b>policy</b>",
    "base": "checkpoint:00000000000000cc",
    "objective": {"name": "grpo", "high": 0.28},
    "settings": {"optimizer": {"learning_rate": 2e-4}, "minutes": None},
    "machine": {"cores": 2, "memory_gib": 24.0, "processor": "x"},
    "code_version": "abc",
    "held_out": {
        "0": {"n": 100, "accuracy": 0.4, "wilson_95": [0.31, 0.5]},
        "12": {"n": 100, "accuracy": 0.8, "wilson_95": [0.71, 0.87]},
    },
    "paired": PAIRED,
}
DATA = {"attempts": 9, "sequences": 5, "dropped": {"held-out split test": 4}, "breaks": {}}


def step(number: int, **figures: Any) -> dict[str, Any]:
    return {"run_id": "run:1", "checkpoint_id": POLICY, "step": number, "loss": 0.1} | figures


@pytest.fixture()
def home(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Home]:
    """Yield a store with the run of a policy of 12 steps, and a checkpoint of a training set."""
    with new_catalog(storage.Home(tmp_path / "store")) as catalog:
        rows = [
            step(n, reward=0.1 * n, dead_group_share=0.5, mismatch_kl=1e-4, seconds=1.0)
            | {"tokens_per_s": 100.0, "at": storage.catalog.now()}
            for n in range(1, 13)
        ]
        rows[-1]["loss"] = None
        supervised = [
            step(n, held_out_loss=held_out, entropy=1.0, mfu=0.25)
            | {"checkpoint_id": SET, "run_id": "run:2"}
            for n, held_out in ((1, None), (2, 1.5), (3, None), (4, 0.75))
        ]
        storage.commit(catalog, {"train_steps": [*rows, *supervised]})
        now = storage.catalog.now()
        job = {"base": "pocket", "steps": 12, "minutes": None}
        run: dict[str, Any] = {"run_id": "run:1", "flow": "train-policy", "params": json.dumps(job)}
        run |= {"status": "completed", "started_at": now, "machine": "{}", "code_version": "abc"}
        catalog.upsert(storage.catalog.runs, run)
        catalog.enter_artifact(CARD["base"], {})
        catalog.enter_artifact("sweep:00000000000000dd", {})
        catalog.enter_artifact(POLICY, CARD, [CARD["base"], "sweep:00000000000000dd"])
        catalog.enter_artifact("engine:00000000000000ee", {}, [POLICY])
        catalog.enter_artifact(SET, {"name": "set", "data": DATA}, [CARD["base"]])
        yield catalog.home


def report_of(home: storage.Home, checkpoint_id: str, out: Path) -> tuple[TrainingReport, str]:
    with storage.connect(home) as connection:
        report = build_training_report(connection, checkpoint_id, out)
    return report, report.page.read_text()


def test_a_policys_page_has_scores_with_n_and_intervals(home: storage.Home, tmp_path: Path) -> None:
    report, page = report_of(home, POLICY, tmp_path / "out")
    assert report.findings[:3] == [
        "Held-out tasks: 40.0 % [31.0 to 50.0] after 0 steps (n = 100), "
        "80.0 % [71.0 to 87.0] after 12 steps (n = 100).",
        "Paired by task, 100 tasks: +40.0 points, 95 % interval +30.0 to +50.0, p <0.0001: better.",
        "Mean reward: 0.300 in the first 5 steps, 1.000 in the last 5. "
        "50.0 % of the groups were dead.",
    ]
    assert "One training, one seed" in report.gaps[0]
    assert "1 of 12 steps had nothing to train on." in report.gaps
    assert report.alarms == []
    for text in ("2 cores, 24.0 GiB, x", "tutti train grpo job.yaml", "steps: 12", "0.0002"):
        assert text in page
    assert "minutes" not in page, "what is not set is not shown"
    again = re.search(r"job.yaml</summary><pre>(.*?)</pre>", page, re.DOTALL)
    assert again and yaml.safe_load(again[1]) == {"base": "pocket", "steps": 12}
    made = re.findall(r"made from|made of it", page)
    assert sorted(made) == ["made from", "made from", "made of it"]
    assert "engine:00000000000000ee" in page and "<b>policy" not in page
    assert '<figure><h3>Reward</h3><div class="wide"><svg' in page
    assert "Preference" not in page and ">Entropy<" not in page, "it has no such figures"


def test_several_trials_are_worth_less_than_as_many_tasks(
    home: storage.Home, tmp_path: Path
) -> None:
    """The card's interval treats 100 attempts as 100 tasks; these are 25 tasks with four attempts
    each."""
    now = storage.catalog.now()
    with storage.open_catalog(home) as catalog:
        for repeat, correct in ((0, 10), (1, 20)):
            cell = {"sweep_id": "sweep:held-out", "cell_id": f"cell:{repeat}", "repeat": repeat}
            named = cell | {"benchmark": "b", "model": "m", "policy": "p", "concurrency": 4}
            attempts = [
                named
                | {"attempt_id": f"{repeat} {n}", "sample_id": f"{repeat} {n}", "trial": n % 4}
                | {"task_id": str(n // 4), "status": "ok", "correct": n // 4 < correct}
                | {"run_id": "run:1", "ended_at": now}
                for n in range(100)
            ]
            storage.commit(catalog, {"attempts": attempts})
            planned = {"position": repeat, "task_set_id": "t", "index_id": "i", "samples": 100}
            catalog.upsert(storage.catalog.cells, named | planned | {"status": "finished"})
    report, page = report_of(home, POLICY, tmp_path / "out")
    # Wilson's of 10 right of 25 is 23.4 to 59.3.
    assert "40.0 % [23.4 to 59.3] after 0 steps (n = 100)" in report.findings[0]
    assert "pass@k" in page and page.count("<td>12</td><td>") == 5, "its score; k of 1 to 4"


def test_a_sets_page_has_its_data_and_what_was_left_out(home: storage.Home, tmp_path: Path) -> None:
    report, page = report_of(home, SET, tmp_path / "out")
    assert report.findings[0] == (
        "Loss on held-out tasks: 1.500 after step 2, 0.750 after step 4, lowest 0.750 after step "
        "4; nats a token, each one measurement."
    )
    assert "held-out split test" in page and "tutti train" not in page, "its run is not known"
    assert "before and after" not in page and ">Entropy<" in page


def test_other_weights_have_sampled(home: storage.Home, tmp_path: Path) -> None:
    """The first step's mismatch far exceeds rounding."""
    rows = [step(1, checkpoint_id=SET, mismatch_kl=0.2, at=storage.catalog.now())]
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"train_steps": rows})
    report, page = report_of(home, SET, tmp_path / "out")
    assert len(report.alarms) == 1 and 'role="alert"' in page
    assert [row["step"] for row in report.training.steps] == [1, 2, 3, 4], "each step once"


@pytest.mark.parametrize("name", ["checkpoint:1", "sweep:00000000000000dd"])
def test_an_unknown_checkpoint_is_refused(home: storage.Home, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"no checkpoint '{name}'"):
        report_of(home, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_that_were_not_trained_have_no_page(home: storage.Home, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not trained here"):
        report_of(home, CARD["base"], tmp_path / "out")


def test_a_long_training_is_drawn_as_means() -> None:
    points = [(n, float(n)) for n in range(1, 10 * POINTS + 1)]
    drawn = thinned(points)
    assert len(drawn) == POINTS and drawn[0] == (5.5, 5.5)
    assert thinned(points[:7]) == points[:7] and thinned([]) == []
    (plot,) = curve_plots([step(n) for n in range(1, 2 * POINTS + 1)])
    assert plot.caption.endswith("Means of 2 steps each.")


def test_the_live_view_has_the_last_steps_and_a_plot() -> None:
    assert live_view([]) is None
    view = live_view([step(n, reward=0.123456) for n in range(1, 41)])
    assert view is not None and view.image.startswith(b"\x89PNG")
    assert [row["step"] for row in view.table] == [*range(40, 25, -1)]
    assert view.table[0] == {"step": 40, "loss": "0.1", "reward": "0.1235"}


async def test_a_reused_checkpoint_without_its_steps_ends_without_a_page(
    home: storage.Home, new_catalog: NewCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    """The steps were deleted from the store; the job that reuses the checkpoint does not fail."""
    with new_catalog(home) as catalog:
        assert steps_recorded(POLICY, home) and not steps_recorded("checkpoint:pruned", home)
        catalog.enter_artifact("checkpoint:pruned", CARD)
        await publish_if_recorded("checkpoint:pruned", catalog, StageLog())
    assert "no page" in capsys.readouterr().err
