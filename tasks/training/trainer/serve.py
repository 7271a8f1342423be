"""The trainer of a policy: takes a step for each batch that appears, and writes the new weights.

In: ``WORK/batch-000001.parquet`` and so on, in order. Out: ``WORK/weights-000001/`` and so on (for
an adapter, ``weights-000000`` before the first step) and one report per step. A batch without rows
changes no weights. ``WORK/end`` ends the process, which then writes the weights to ``--out``.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch

from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.trainer.fit import Report, load_state, save_state
from tutti.tasks.training.trainer.model import Policy
from tutti.tasks.training.trainer.rows import Row, recorded_rows
from tutti.tasks.training.trainer.step import Diverged, Stepper
from tutti.tasks.training.trainer.world import World

POLL_S = 0.02
LOOK_S = 5.0
"""Seconds between messages of the first process to the others, which wait no longer than WAIT_S."""
KEPT = 2
"""Number of weight versions to keep: an engine may be reading the last but one."""
FIRST = "weights-000000"
"""An engine serves an adapter's name from the first call, so that one stays."""


def serve(settings: TrainerSettings, work: Path, out: Path, report: Report, world: World) -> None:
    """Take steps until ``WORK/end`` appears. The first process of the world looks for batches and
    writes. Raises Diverged with the step."""
    torch.manual_seed(settings.seed)
    policy = Policy(settings, world)
    stepper, state = Stepper(policy, settings), work / "state.pt"
    progress = load_state(state, stepper) or {"step": 0, "log": [], "written": []}
    step, log, written = progress["step"], progress["log"], progress["written"]
    for row in log:
        report(row)  # the platform starts anew: it hears what was done before
    if settings.lora is not None and step == 0:
        _write(policy, work / FIRST)
    if world.is_first:
        _tidy(work, step, written)
    report({"ready": step})
    assert settings.steps is not None, "a policy is trained for so many steps"
    while (batch := _next(work, step + 1, world)) is not None:
        rows = list(recorded_rows(batch))
        rate = settings.optimizer.rate(step / settings.steps)
        parts = parts_of(rows, settings.updates, f"{settings.seed} {step + 1}")
        step += 1
        try:
            figures = together([stepper.take(part, rate) for part in parts])
        except Diverged as error:
            raise Diverged(f"step {step}: {error}") from None
        figures = figures or {"loss": None, "sequences": 0, "learning_rate": rate}
        if rows:
            written.append(f"weights-{step:06d}")
            _write(policy, work / written[-1])
        log.append({"step": step, "weights": written[-1] if written else None, **figures})
        save_state(state, stepper, {"step": step, "log": log, "written": written[-KEPT:]})
        report(log[-1])
        written = written[-KEPT:]
        if world.is_first:
            _tidy(work, step, written)
    policy.save(out)


def parts_of(rows: list[Row], updates: int, seed: str) -> list[list[Row]]:
    """Split a step's rows into at most `updates` similar parts, in an order drawn from `seed`."""
    if updates == 1 or len(rows) < 2:
        return [rows] if rows else []
    drawn = list(rows)
    Random(seed).shuffle(drawn)
    count = min(updates, len(drawn))
    return [drawn[nth::count] for nth in range(count)]


SUMMED = ("sequences", "seconds")
LARGEST = ("mismatch_max", "peak_mb")


def together(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combine the figures of a step's updates: counts and seconds are summed, maxima are maximised,
    speeds are averaged by seconds and other figures by sequences; None if an update has none."""
    if len(every) < 2:
        return dict(every[0]) if every else {}
    row: dict[str, Any] = {}
    for name in every[0]:
        values = [each[name] for each in every if each.get(name) is not None]
        weights = [each["seconds" if name == "tokens_per_s" else "sequences"] for each in every]
        if len(values) < len(every):
            row[name] = None
        elif name in LARGEST:
            row[name] = max(values)
        elif name in SUMMED:
            row[name] = sum(values)
        else:
            products = (value * weight for value, weight in zip(values, weights, strict=True))
            row[name] = sum(products) / sum(weights)
    return row


def _write(policy: Policy, folder: Path) -> None:
    temporary = folder.with_suffix(".tmp")
    if policy.world.is_first:
        shutil.rmtree(temporary, ignore_errors=True)
    policy.save(temporary)
    if policy.world.is_first:
        shutil.rmtree(folder, ignore_errors=True)
        temporary.replace(folder)


def _tidy(work: Path, step: int, written: list[str]) -> None:
    """Remove batches already trained on, and weights older than those `written`; a kill may have
    prevented that in their own step."""
    for batch in work.glob("batch-*.parquet"):
        if batch.name <= f"batch-{step:06d}.parquet":
            batch.unlink()
    for old in work.glob("weights-*[0-9]"):
        if written and FIRST < old.name < written[0]:
            shutil.rmtree(old, ignore_errors=True)


def _next(work: Path, number: int, world: World) -> Path | None:
    """Wait for the next batch and return it; None at the end."""
    batch = work / f"batch-{number:06d}.parquet"
    while True:
        deadline, seen = time.monotonic() + LOOK_S, None
        while world.is_first and seen is None and time.monotonic() < deadline:
            seen = next((each for each in (batch, work / "end") if each.exists()), None)
            time.sleep(0.0 if seen else POLL_S)
        if (seen := world.from_first(seen)) is not None:
            return seen if seen == batch else None
