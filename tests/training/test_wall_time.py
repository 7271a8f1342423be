"""Tests of the time limit: it is Slurm's or the job's, whichever is sooner, and the exit code
reports it."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.conftest import NewCatalog
from tutti.errors import UsageError
from tutti.storage import Home
from tutti.tasks.training import TrainJob, WallTimeReached
from tutti.tasks.training.jobs import job
from tutti.tasks.training.jobs.stage import run_job

JOB: dict[str, Any] = {"base": "b", "data": {"file": "f"}}


@pytest.mark.parametrize(
    ("minutes", "slurm_s", "left_s"),
    [
        (None, None, None),
        (10, None, 540),  # a tenth of a short limit is kept
        (240, None, 240 * 60 - 180),
        (None, 7200, 7200 - 180),
        (60, 7200, 3600 - 180),
        (240, 600, 540),
    ],
)
def test_the_sooner_limit_counts(
    monkeypatch: pytest.MonkeyPatch,
    minutes: float | None,
    slurm_s: int | None,
    left_s: float | None,
) -> None:
    monkeypatch.setattr(job, "BEGAN_AT", 1_000_000.0)
    monkeypatch.delenv(job.VARIABLE, raising=False)
    if slurm_s is not None:
        monkeypatch.setenv(job.VARIABLE, str(1_000_000 + slurm_s))
    stop_at = TrainJob.model_validate(JOB | {"wall_time_minutes": minutes}).stop_at
    assert (stop_at is None) == (left_s is None)
    assert left_s is None or stop_at == pytest.approx(1_000_000 + left_s)


def test_a_limit_that_is_no_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(job.VARIABLE, "soon")
    with pytest.raises(UsageError, match="SLURM_JOB_END_TIME='soon' is not a time"):
        assert TrainJob.model_validate(JOB).stop_at


def test_the_trainers_end_becomes_the_verbs_exit_code(
    tmp_path: Path, new_catalog: NewCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer's end is not a failure, and no partial checkpoint is left."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '{\"saved\": 7}'\nexit 5\n")
    python.chmod(0o755)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(python))
    with new_catalog(Home(tmp_path / "store")) as catalog:
        with pytest.raises(WallTimeReached, match="saved after step 7; run the same") as told:
            run_job("x", [], tmp_path / "store" / "out", catalog, lambda row: None)
    assert told.value.exit_code == 5
    assert not list((tmp_path / "store").glob("out*"))
