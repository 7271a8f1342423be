"""Running a module in the models environment, following its reports, and recording its steps."""

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tutti.errors import ExitCode, TuttiError
from tutti.storage import COLUMNS, Catalog, commit
from tutti.storage import catalog as cat
from tutti.tasks.platform import PACKAGE
from tutti.tasks.platform.gpus import DEFAULT_CLAIM, GpuClaim, lease_gpus
from tutti.tasks.serving import ServingError
from tutti.tasks.serving.engines import models_python
from tutti.tasks.serving.processes import Child

POLL_S = 0.5
TRAINER = "tutti.tasks.training.trainer"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Waiting threads sleep instead of spinning: with an engine or another job on the same cores,
    # spinning made a step ten times as slow.
    "OMP_WAIT_POLICY": "PASSIVE",
}

Report = Callable[[dict[str, Any]], None]


class TrainingFailed(TuttiError, RuntimeError):
    """The training job ended with an error; the message holds the end of its log."""


class WallTimeReached(TuttiError, RuntimeError):
    """The training was saved before its wall-time limit; the same command resumes it."""

    exit_code = ExitCode.INCOMPLETE

    def __init__(self, step: object) -> None:
        super().__init__(
            f"the wall-time limit is near: saved after step {step}; run the same command again to "
            "go on"
        )


def write_jsonl(rows: Iterable[Any], file: Path) -> None:
    """Write one JSON value per line; the file is written completely or not at all."""
    temporary = file.with_suffix(".tmp")
    with temporary.open("w") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
    os.replace(temporary, file)


def training_command(
    module: str, arguments: list[str], processes: int = 1
) -> tuple[list[str], dict[str, str]]:
    """The command that runs one of our modules in the models environment, and its environment.

    Several processes, one per leased GPU, form a world of the trainer. Raises
    ModelsEnvironmentMissing.
    """
    launcher = ["launch.py"] if processes < 2 else ["launch_many.py", str(processes)]
    launcher[0] = str(PACKAGE / "tasks" / "training" / launcher[0])
    return [str(models_python()), "-P", *launcher, module, *arguments], ENVIRONMENT


def run_job(
    module: str,
    arguments: list[str],
    folder: Path,
    catalog: Catalog,
    on_report: Report,
    claim: GpuClaim = DEFAULT_CLAIM,
) -> list[dict[str, Any]]:
    """Run ``python -m module ... --out FOLDER`` in the models environment to its end, by `launch`.

    The job sees the GPUs of `claim` and has one process for each; while it waits for them,
    `on_report` receives ``{"waiting": holder}``. The folder appears only if the job succeeds.
    Returns the JSON lines that the job printed. Raises TrainingFailed with the end of its log,
    WallTimeReached, GpuError.
    """
    staging = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.tmp")
    arguments = [*arguments, "--out", str(staging)]
    training_command(module, arguments)  # without a models environment it waits for no GPU
    reports: list[dict[str, Any]] = []
    try:
        with (
            lease_gpus(catalog, claim, lambda text: on_report({"waiting": text})) as gpus,
            Child(
                "training", *training_command(module, arguments, len(gpus.gpus)), catalog, gpus
            ) as child,
        ):
            log, code = ReportLog(child.log), None
            while code is None:
                code = child.poll()  # before the log is read, so that its end is read too
                reports += log.new(on_report)
                time.sleep(POLL_S if code is None else 0.0)
            if code == ExitCode.INCOMPLETE:
                raise WallTimeReached(reports[-1].get("saved"))
            if code:
                raise TrainingFailed(f"training exited with code {code}; {child.last_words()}")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(staging, folder)
    except ServingError as error:
        raise TrainingFailed(str(error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return reports


class ReportLog:
    """The JSON objects that a trainer prints, one per line, read from its log as they arrive."""

    def __init__(self, log: Path) -> None:
        self._log, self._offset = log, 0

    def new(self, on_report: Report = lambda row: None) -> list[dict[str, Any]]:
        """Those since the last call, each given to `on_report`; other lines are skipped."""
        if not self._log.is_file():
            return []
        with self._log.open("rb") as lines:
            lines.seek(self._offset)
            written = lines.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = []
        for line in whole.split(b"\n"):
            if line.startswith(b'{"'):
                with contextlib.suppress(ValueError):
                    rows.append(json.loads(line))
        for row in rows:
            on_report(row)
        return rows


def record_steps(
    catalog: Catalog, run_id: str, checkpoint_id: str, reports: list[dict[str, Any]]
) -> None:
    """Commit a trainer's reports to `train_steps`."""
    names = COLUMNS["train_steps"].keys() - {"run_id", "checkpoint_id", "at"}
    key = {"run_id": run_id, "checkpoint_id": checkpoint_id, "at": cat.now()}
    rows = [key | {name: row.get(name) for name in names} for row in reports if "step" in row]
    commit(catalog, {"train_steps": rows})
