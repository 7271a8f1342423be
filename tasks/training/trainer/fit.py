"""Training on a fixed set to its end, resuming from a saved state. The order of the data follows
from the seed and the epoch, so the state holds only a position."""

import itertools
import math
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch

from tutti.tasks.training.jobs.settings import TrainerSettings, best_of, steps_of
from tutti.tasks.training.objectives import PAIRS
from tutti.tasks.training.trainer.model import Policy
from tutti.tasks.training.trainer.rows import Row, read_rows
from tutti.tasks.training.trainer.step import Diverged, Stepper
from tutti.tasks.training.trainer.world import ALONE, World, copy_into, gather, part_as


def save_state(path: Path, stepper: Stepper, progress: dict[str, Any]) -> None:
    """Write trained weights, optimizer, random state and progress, completely or not at all.

    All processes of the stepper's world must call it; the file exists when any of them returns. It
    has whole tensors, so that a different number of processes can resume from it.
    """
    world = stepper.world
    names = {id(each) for each in stepper.policy.parameters}
    named = stepper.policy.model.named_parameters()
    optimizer = stepper.optimizer.state_dict()
    moments = {nth: gather(each.items(), world) for nth, each in optimizer["state"].items()}
    drawn = world.all_values(torch.get_rng_state())
    parts = {
        "weights": gather(((n, p) for n, p in named if id(p) in names), world),
        "optimizer": optimizer | {"state": moments},
        "random": (random.getstate(), drawn[0], *drawn[1:]),
        "progress": progress,
    }
    if world.is_first:
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as out:
            torch.save(parts, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    world.all_values(None)


def load_state(path: Path, stepper: Stepper) -> dict[str, Any] | None:
    """Restore what `save_state` wrote; return None, and change nothing, without such a file."""
    if not path.is_file():
        return None
    world = stepper.world
    # Each process reads only the pages of the parts that it keeps.
    saved = torch.load(path, weights_only=False, map_location="cpu", mmap=world.size > 1)
    known = dict(stepper.policy.model.named_parameters())
    for name, value in saved["weights"].items():
        copy_into(known[name], value)
    optimizer = stepper.optimizer
    numbered = [each for group in optimizer.param_groups for each in group["params"]]
    for nth, moments in saved["optimizer"]["state"].items():
        for name, value in moments.items():
            if name != "step":
                moments[name] = part_as(value, numbered[nth])
    optimizer.load_state_dict(saved["optimizer"])
    first, *drawn = saved["random"]
    random.setstate(first)
    torch.set_rng_state(drawn[world.rank if world.rank < len(drawn) else 0])
    progress: dict[str, Any] = saved["progress"]
    return progress


STEPS_AHEAD = 2
"""Steps as long as the longest so far that must fit in before the limit."""

Report = Callable[[dict[str, Any]], None]


class OutOfTime(Exception):
    """The state was saved after `step`, before the wall-time limit."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


def fit(
    settings: TrainerSettings, out: Path, state: Path, report: Report, world: World = ALONE
) -> dict[str, Any]:
    """Train, write checkpoint and best checkpoint into `out`, and return the figures of the card.

    State and best checkpoint stay in place until the platform has `out`: a kill before that costs
    the steps since the last state. Raises BadData, Diverged, OutOfTime with the state saved, and
    ValueError for settings that do not fit together, or a limit before the first step.
    """
    torch.manual_seed(settings.seed)
    policy = Policy(settings, world)
    stepper = Stepper(policy, settings)
    longest = settings.batch.max_tokens
    data = read_rows(settings.data, policy.tokenizer, longest)
    held = settings.held_out
    held_out = [] if held is None else read_rows(held, policy.tokenizer, longest).rows
    known = {"sequences": len(data.rows), "dropped": data.dropped, "parameters": policy.size}
    report(known | {"held_out": len(held_out)})
    progress = load_state(state, stepper) or {"step": 0, "tokens": 0, "seconds": 0.0, "log": []}
    run = _Run(stepper, progress, report)
    run.to_the_end(data.rows, held_out, state)
    policy.save(out)
    if world.is_first and best_of(state).is_dir():
        shutil.copytree(best_of(state), out / "best", dirs_exist_ok=True)
    return known | {"steps": run.step, "tokens": run.tokens, "train_s": run.seconds,
                    "best_held_out": run.best, "log": run.log}  # fmt: skip


class _Run:
    """A training in progress. Decisions that depend on a clock are taken by the first process."""

    def __init__(self, stepper: Stepper, progress: dict[str, Any], report: Report) -> None:
        self.settings, self.stepper, self.report = stepper.settings, stepper, report
        self.world = stepper.world
        self.step, self.tokens = progress["step"], progress["tokens"]
        self.log: list[dict[str, Any]] = progress["log"]
        self.best: float | None = progress.get("best")
        self._began = time.monotonic() - progress["seconds"]
        self._saved = time.monotonic()
        self._first, self._longest_s = self.step, 0.0

    @property
    def seconds(self) -> float:
        """Seconds of training, including those before a kill."""
        return float(time.monotonic() - self._began)

    def to_the_end(self, rows: Sequence[Row], held_out: Sequence[Row], state: Path) -> None:
        """Take all remaining steps."""
        settings = self.settings
        for row in self.log:
            self.report(row)  # what was reported before a kill: the platform starts anew
        steps = steps_of(len(rows), settings.batch.sequences, settings.epochs, settings.steps)
        for drawn in itertools.islice(_batches(rows, settings), self.step, None):
            spent = self.world.from_first(self.seconds / (settings.seconds or math.inf))
            done = max(self.step / steps if steps else 0.0, spent)
            if done >= 1.0:
                return
            self._check_limit(state)
            step_began = time.monotonic()
            try:
                figures: dict[str, Any] = self.stepper.take(drawn, settings.optimizer.rate(done))
            except Diverged as error:
                raise Diverged(f"step {self.step + 1}: {error}") from None
            self.step += 1
            self.tokens += sum(len(row.ids) for row in drawn)
            last = steps is not None and self.step >= steps
            figures = {"step": self.step, "tokens": self.tokens} | figures
            figures |= {"of": steps, "done": done}
            if held_out and (last or self.step % settings.evaluate_every == 0):
                figures["held_out_loss"] = loss = self.stepper.held_out_loss(held_out)
                if self.best is None or loss < self.best:
                    self.best = loss
                    self.stepper.policy.save(best_of(state))
            self.log.append(figures)
            self.report(figures)
            due = time.monotonic() - self._saved > settings.save_every_s
            if self.world.from_first(due):
                self._save(state)
            self._longest_s = max(self._longest_s, time.monotonic() - step_began)

    def _check_limit(self, state: Path) -> None:
        """Save the state and raise OutOfTime if the next step may not end before the limit."""
        stop_at = self.settings.stop_at
        if stop_at is None:
            return
        if self.world.from_first(time.time() + STEPS_AHEAD * self._longest_s < stop_at):
            return
        if self.step == self._first:  # submitted again, it would never end
            raise ValueError("the wall-time limit is too near: not one step fits in before it")
        self._save(state)
        raise OutOfTime(self.step)

    def _save(self, state: Path) -> None:
        progress = {"step": self.step, "tokens": self.tokens, "seconds": self.seconds}
        save_state(state, self.stepper, progress | {"log": self.log, "best": self.best})
        self._saved = time.monotonic()


def _batches(rows: Sequence[Row], settings: TrainerSettings) -> Iterator[list[Row]]:
    """Yield steps of rows endlessly; the order within each epoch follows from seed and epoch."""
    unit = 2 if settings.objective in PAIRS else 1
    units = [rows[first : first + unit] for first in range(0, len(rows), unit)]
    size = max(1, settings.batch.sequences // unit)
    for epoch in itertools.count():
        order = list(units)
        Random(f"{settings.seed} {epoch}").shuffle(order)
        for first in range(0, len(order), size):
            yield [row for each in order[first : first + size] for row in each]
