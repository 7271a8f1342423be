"""The loop's interface to the trainer's process: batches in, new weights and figures out."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog
from tutti.tasks.platform.gpus import GpuLease
from tutti.tasks.serving import ServingError
from tutti.tasks.serving.processes import Child
from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.jobs.stage import (
    TRAINER,
    Report,
    ReportLog,
    TrainingFailed,
    training_command,
)
from tutti.tasks.training.policy.batch import StepBatch, write_batch


def collapse(
    figures: Sequence[Mapping[str, Any]], steps: int = 10, entropy: float = 0.005
) -> str | None:
    """Return why the training should stop after these steps (in order); None if it should continue.

    The policy has collapsed if three conditions hold: the last `steps` had dead groups only (single
    ones are usual); the entropy (nats per token; a small model of short answers that still learns
    has 0.01 to 0.1) was below the bound when last measured (such steps change no weights); and the
    attempts earn less than over as many steps before. The third is needed because a policy that
    solves every task also has only dead groups.
    """
    last, before = figures[-steps:], figures[:-steps]
    if len(last) < steps or any(each["dead_group_share"] < 1.0 for each in last):
        return None
    measured = [e for each in before if (e := each.get("entropy")) is not None]
    if not measured or measured[-1] >= entropy:
        return None
    # Means of whole windows alone, if there are any: that of a single step is noise.
    ends = range(min(len(before), steps), len(before) + 1)
    reward, best = _mean(last), max(_mean(before[max(0, n - steps) : n]) for n in ends)
    if reward >= best:
        return None
    return (
        f"collapsed: entropy {measured[-1]:.2g} nats, and no group with different rewards for "
        f"{steps} steps; mean reward {reward:.3g}, at best {best:.3g} before"
    )


def _mean(figures: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(each["reward"] for each in figures) / len(figures))


POLL_S = 0.05
START_TIMEOUT_S, STEP_TIMEOUT_S, END_TIMEOUT_S = 180.0, 3600.0, 600.0
FIRST_ADAPTER = "weights-000000"


@dataclass(frozen=True)
class StepDone:
    """A step's figures, and the weights after it (None before the first were written)."""

    step: int
    figures: dict[str, Any]
    weights: Path | None


class PolicyTrainer:
    """A running trainer, as a context manager that ends it. Its state survives in `work`."""

    def __init__(
        self,
        settings: TrainerSettings,
        work: Path,
        out: Path,
        catalog: Catalog,
        on_step: Report = lambda row: None,
        gpus: GpuLease | None = None,
    ) -> None:
        """`on_step` is called with all figures of each finished step."""
        self._settings, self._work, self._out, self._catalog = settings, work, out, catalog
        self._on_step, self._gpus = on_step, gpus
        self._figures_file = work / "figures.jsonl"
        self._noted: dict[int, dict[str, Any]] | None = None
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> "PolicyTrainer":
        """Start the trainer. Raises TrainingFailed."""
        self._work.mkdir(parents=True, exist_ok=True)
        (self._work / "end").unlink(missing_ok=True)
        file = self._work / "settings.json"
        file.write_text(self._settings.model_dump_json(indent=1))
        arguments = ["--settings", str(file), "--work", str(self._work), "--out", str(self._out)]
        processes = 1 if self._gpus is None else len(self._gpus.gpus)
        command, environment = training_command(TRAINER, arguments, processes)
        try:
            self._child = Child("training", command, environment, self._catalog, self._gpus)
        except ServingError as error:
            raise TrainingFailed(str(error)) from error
        self._log = ReportLog(self._child.log)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stop()

    @property
    def adapter(self) -> Path | None:
        """The adapter before the first step, which changes nothing; None if whole weights are
        trained."""
        return None if self._settings.lora is None else self._work / FIRST_ADAPTER

    async def ready(self) -> list[StepDone]:
        """Wait until the trainer is ready; return the steps finished before it started."""
        await self._wait(lambda row: "ready" in row, START_TIMEOUT_S)
        for _, row in sorted(self.noted().items()):
            self._on_step(row)
        return [self._done(row) for row in self._rows if "step" in row]

    async def train(self, step: int, batch: StepBatch) -> StepDone:
        """Take a step. Raises TrainingFailed with the trainer's message."""
        file = self._work / f"batch-{step:06d}.parquet"
        await asyncio.to_thread(write_batch, batch, file)
        return self._done(await self._wait(lambda row: row.get("step") == step, STEP_TIMEOUT_S))

    def note(self, step: int, figures: Mapping[str, Any]) -> None:
        """Store figures of a step that its trainer does not know, for a resumed job. Raises
        TrainingFailed if they show that the policy has collapsed."""
        row = {"step": step, **figures}
        noted = self._noted = self.noted() | {step: row}
        with self._figures_file.open("a") as out:
            out.write(json.dumps(row) + "\n")
        self._on_step(row)
        if (diagnosis := collapse([noted[each] for each in sorted(noted)])) is not None:
            weights = max(self._work.glob("weights-*[0-9]"), default=None)
            raise TrainingFailed(
                diagnosis + (f"; the last weights are {weights}" if weights else "")
            )

    def noted(self) -> dict[int, dict[str, Any]]:
        """Return the stored figures by step. A last line that a kill truncated is terminated, and
        left out if it is incomplete."""
        if self._noted is not None:
            return self._noted
        text = self._figures_file.read_text() if self._figures_file.is_file() else ""
        if text and not text.endswith("\n"):
            with self._figures_file.open("a") as out:
                out.write("\n")
        noted = {}
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                row = json.loads(line)
                noted[row["step"]] = row
        return noted

    async def finish(self) -> None:
        """End the training; the checkpoint is then in `out`."""
        (self._work / "end").touch()
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._is_alive():
            if time.monotonic() > deadline:
                raise TrainingFailed(f"the trainer did not end within {END_TIMEOUT_S:.0f} s")
            await asyncio.sleep(POLL_S)

    def _done(self, row: dict[str, Any]) -> StepDone:
        name = row.get("weights")
        return StepDone(row["step"], row, None if name is None else self._work / name)

    async def _wait(
        self, is_awaited: Callable[[dict[str, Any]], bool], timeout_s: float
    ) -> dict[str, Any]:
        """Return the trainer's first report that `is_awaited` accepts."""
        deadline = time.monotonic() + timeout_s
        while True:
            alive = self._is_alive()
            self._rows += self._log.new()
            if (row := next(filter(is_awaited, self._rows), None)) is not None:
                return row
            if not alive:
                raise TrainingFailed(f"the trainer ended; {self._child.last_words()}")
            if time.monotonic() > deadline:
                raise TrainingFailed(f"the trainer said nothing for {timeout_s:.0f} s")
            await asyncio.sleep(POLL_S)

    def _is_alive(self) -> bool:
        if code := self._child.poll():
            raise TrainingFailed(f"the trainer exited with {code}; {self._child.last_words()}")
        return code is None
