"""The trainer's process as the loop sees it: a batch in, new weights and figures out.

`collapse` says when a policy has collapsed: nothing that it samples differs any more, and it earns
less for it. A pure rule of the figures of a training's steps.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog
from tutti.tasks.gpus import GpuLease
from tutti.tasks.serving import ServingError
from tutti.tasks.serving.processes import Child
from tutti.tasks.training.policy.batch import StepBatch, write_batch
from tutti.tasks.training.settings import TrainerSettings
from tutti.tasks.training.stage import TRAINER, Report, ReportLog, TrainingFailed, training_command


@dataclass(frozen=True)
class CollapseRule:
    """The bounds of the rule."""

    steps: int = 10
    """So many steps in a row without two different rewards in any group: single ones are usual."""
    entropy: float = 0.005
    """Nats a token. A small model of short answers that still learns has 0.01 to 0.1."""


def collapse(
    figures: Sequence[Mapping[str, Any]], rule: CollapseRule = CollapseRule()
) -> str | None:
    """Why the training should stop after these steps (in order); None where it should go on.

    The last `rule.steps` had dead groups only, the entropy was below the bound when it was last
    measured (such steps change no weights), and the attempts earn less than they did over as many
    steps before: a policy that solves every task has dead groups too, and is no failure.
    """
    last, before = figures[-rule.steps :], figures[: -rule.steps]
    if len(last) < rule.steps or any(each["dead_group_share"] < 1.0 for each in last):
        return None
    measured = [e for each in before if (e := each.get("entropy")) is not None]
    if not measured or measured[-1] >= rule.entropy:
        return None
    reward = _mean(last)
    best = max(_mean(before[max(0, n - rule.steps) : n]) for n in _ends(len(before), rule.steps))
    if reward >= best:
        return None
    return (
        f"collapsed: entropy {measured[-1]:.2g} nats, and no group with different rewards for "
        f"{rule.steps} steps; mean reward {reward:.3g}, at best {best:.3g} before"
    )


def _ends(n: int, window: int) -> range:
    """Where windows end, of whole ones alone if there are any: a single step's mean is noise."""
    return range(min(n, window), n + 1)


def _mean(figures: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(each["reward"] for each in figures) / len(figures))


POLL_S = 0.05
START_TIMEOUT_S, STEP_TIMEOUT_S, END_TIMEOUT_S = 180.0, 3600.0, 600.0
FIRST_ADAPTER = "weights-000000"


@dataclass(frozen=True)
class StepDone:
    """A step's figures, and the weights that it made (None before the first that was written)."""

    step: int
    figures: dict[str, Any]
    weights: Path | None


class PolicyTrainer:
    """A running trainer; a context manager that ends it. Its state survives in `work`."""

    def __init__(
        self,
        settings: TrainerSettings,
        work: Path,
        out: Path,
        catalog: Catalog,
        on_step: Report = lambda row: None,
        gpus: GpuLease | None = None,
    ) -> None:
        """`on_step` is called with all figures of each step that is done."""
        self._settings, self._work, self._out, self._catalog = settings, work, out, catalog
        self._on_step, self._gpus = on_step, gpus
        self._child: Child | None = None
        self._log: ReportLog | None = None
        self._noted: dict[int, dict[str, Any]] | None = None
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> "PolicyTrainer":
        """Start it. Raises TrainingFailed."""
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
        if self._child is not None:
            self._child.stop()
            self._child = None

    @property
    def adapter(self) -> Path | None:
        """The adapter before the first step, which changes nothing; None where whole weights are
        trained."""
        return None if self._settings.lora is None else self._work / FIRST_ADAPTER

    async def ready(self) -> list[StepDone]:
        """The steps that were done before it was started, once it is ready."""
        await self._until(lambda rows: any("ready" in row for row in rows), START_TIMEOUT_S)
        for _, row in sorted(self.noted().items()):
            self._on_step(row)
        return [self._done(row) for row in self._rows if "step" in row]

    async def train(self, step: int, batch: StepBatch) -> StepDone:
        """Take a step. Raises TrainingFailed with the trainer's words."""
        file = self._work / f"batch-{step:06d}.parquet"
        await asyncio.to_thread(write_batch, batch, file)
        await self._until(lambda rows: any(row.get("step") == step for row in rows), STEP_TIMEOUT_S)
        return self._done(next(row for row in self._rows if row.get("step") == step))

    def note(self, step: int, figures: Mapping[str, Any]) -> None:
        """Keep the figures of a step that its trainer does not know, for a job that goes on.

        Raises TrainingFailed where they say that the policy has collapsed.
        """
        row = {"step": step, **figures}
        noted = self._noted = self.noted() | {step: row}
        with (self._work / "figures.jsonl").open("a") as out:
            out.write(json.dumps(row) + "\n")
        self._on_step(row)
        if (diagnosis := collapse([noted[each] for each in sorted(noted)])) is not None:
            kept = "; the last weights are {}".format
            weights = max(self._work.glob("weights-*[0-9]"), default=None)
            raise TrainingFailed(diagnosis + (kept(weights) if weights else ""))

    def noted(self) -> dict[int, dict[str, Any]]:
        """The figures noted so far, by step; a line that a kill cut off is ended, and counts for
        nothing unless it is whole."""
        if self._noted is not None:
            return self._noted
        file = self._work / "figures.jsonl"
        text = file.read_text() if file.is_file() else ""
        if text and not text.endswith("\n"):
            with file.open("a") as out:
                out.write("\n")
        found = {}
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                row = json.loads(line)
                found[row["step"]] = row
        return found

    async def finish(self) -> None:
        """End it; the checkpoint is in `out` then."""
        (self._work / "end").touch()
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._alive():
            if time.monotonic() > deadline:
                raise TrainingFailed(f"the trainer did not end within {END_TIMEOUT_S:.0f} s")
            await asyncio.sleep(POLL_S)

    def _done(self, row: dict[str, Any]) -> StepDone:
        name = row.get("weights")
        return StepDone(row["step"], row, None if name is None else self._work / name)

    async def _until(self, is_there: Any, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            alive = self._alive()
            assert self._child is not None and self._log is not None, "it was started"
            self._rows += self._log.new()
            if is_there(self._rows):
                return
            if not alive:
                raise TrainingFailed(f"the trainer ended; {self._child.last_words()}")
            if time.monotonic() > deadline:
                raise TrainingFailed(f"the trainer said nothing for {timeout_s:.0f} s")
            await asyncio.sleep(POLL_S)

    def _alive(self) -> bool:
        assert self._child is not None, "it was started"
        code = self._child.poll()
        if code:
            raise TrainingFailed(f"the trainer exited with {code}; {self._child.last_words()}")
        return code is None
