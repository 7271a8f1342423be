"""Tests of the end of a policy job: its checkpoint is entered once, wherever the job was killed
before."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.sweeps.conftest import catalog
from tutti.storage import Catalog, query
from tutti.tasks.training import Checkpoint
from tutti.tasks.training.jobs.stage import record_steps
from tutti.tasks.training.policy import register

__all__ = ["catalog"]
MADE, BASE = "checkpoint:made", "checkpoint:base"
STEPS = [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}]


def trained(catalog: Catalog, weights: str) -> Path:
    """Return the files that the trainer leaves in the job's folder."""
    folder = catalog.home.artifacts / "checkpoint-made.work" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(weights)
    (folder.parent / "state.pt").write_text("large")
    return folder


def end(catalog: Catalog, folder: Path) -> None:
    run: Any = SimpleNamespace(catalog=catalog, run_id="run:1")
    made = Checkpoint(MADE, catalog.home.artifact_folder(MADE), {"name": "j"}, reused=False)
    register._register(made, folder, [BASE], STEPS, run)


def recorded(catalog: Catalog) -> list[int]:
    rows = query("select step from train_steps order by step", catalog.home)
    return [row["step"] for row in rows]


@pytest.fixture(autouse=True)
def base(catalog: Catalog) -> None:
    catalog.enter_artifact(BASE, {})


def test_the_checkpoint_is_entered_and_the_state_removed(catalog: Catalog) -> None:
    folder = trained(catalog, "w")
    end(catalog, folder)
    found = catalog.artifact(MADE)
    assert found is not None and (found["path"] / "config.json").read_text() == "w"
    assert not folder.parent.exists() and recorded(catalog) == [1, 2]


@pytest.mark.parametrize("steps_too", [False, True])
def test_a_job_killed_after_the_move_ends_as_if_it_had_not_been(
    catalog: Catalog, steps_too: bool
) -> None:
    """The folder is in its place but not entered; the trainer writes it again."""
    trained(catalog, "w").rename(catalog.home.artifact_folder(MADE))
    if steps_too:
        record_steps(catalog, "run:0", MADE, STEPS)
    (catalog.home.artifacts / "checkpoint-made.work" / "state.pt").unlink()
    (catalog.home.artifacts / "checkpoint-made.work").rmdir()
    end(catalog, trained(catalog, "again"))
    found = catalog.artifact(MADE)
    assert found is not None and (found["path"] / "config.json").read_text() == "again"
    assert recorded(catalog) == [1, 2], "no step is recorded twice"
