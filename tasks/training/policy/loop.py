"""The loop of on-policy training: roll out, reward, train, give the engine the new weights.

In: a job and a bench (real engine, gateway, agent loop). Out: a trained checkpoint, its held-out
scores, rows of `train_steps`. With a staleness of 1 the next step's rollouts run while this one is
trained; the weights are changed under them, and each call says which weights it began and ended
with. Killed, the job goes on: finished cells and steps are kept, the engine gets the last weights.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutti.storage import Lease, held
from tutti.tasks.runs import Run
from tutti.tasks.serving import swap_weights
from tutti.tasks.sweeps.plan import Cell, Plan, enter_plan
from tutti.tasks.sweeps.run import Execution, Services, Spending, run_cell
from tutti.tasks.training.policy.batch import StepBatch, step_batch
from tutti.tasks.training.policy.cells import PolicyCells
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.trainer import PolicyTrainer, StepDone
from tutti.tasks.training.stage import WallTimeReached

Show = Callable[[int, str], None]
"""(steps done, what to say)."""


@dataclass
class PolicyRun:
    """A policy training under way."""

    job: PolicyJob
    cells: PolicyCells
    services: Services
    trainer: PolicyTrainer
    ends: frozenset[int]
    run: Run
    show: Show = lambda done, note: None
    done: list[dict[str, Any]] = field(default_factory=list)
    """Figures of every step so far."""
    evaluated: dict[int, str] = field(default_factory=dict)
    """Cell of the held-out evaluation after so many steps."""
    stop_at: float | None = None
    """When no more steps may begin, in seconds since the epoch."""
    _weights: int = 0
    _began: float = field(default_factory=time.monotonic)
    _longest_s: float = 0.0

    async def to_the_end(self) -> None:
        """Every step that is left, and the evaluations. Raises what `run_cell`, `swap_weights` and
        the trainer raise; the same job goes on from there."""
        catalog = self.run.catalog
        for plan in (self.cells.rollouts, self.cells.evaluations):
            enter_plan(plan, catalog)
        with ExitStack() as stack:
            leases = [
                stack.enter_context(held(catalog, plan.sweep_id))
                for plan in (self.cells.rollouts, self.cells.evaluations)
            ]
            first = await self._go_on(leases[1])
            await self._steps(first, *leases)
            await self._evaluate(self.job.steps, leases[1], done=len(self.done))
            await self.trainer.finish()

    async def _go_on(self, evaluations: Lease) -> int:
        """Take over what was done before this process; returns the steps that were."""
        before, noted = await self.trainer.ready(), self.trainer.noted()
        for each in before:
            more = noted.get(each.step) or dict((await self._batch(each.step - 1)).figures)
            self.done.append(each.figures | more)
        if before:
            await self._take_weights(before[-1])
        for after, cell in zip(self.cells.at, self.cells.evaluations.cells, strict=True):
            if after == len(before) and after < self.job.steps:
                await self._evaluate(after, evaluations)  # of a finished cell nothing runs
            elif after < len(before):
                self.evaluated[after] = cell.cell_id
        return len(before)

    async def _steps(self, first: int, rollouts: Lease, evaluations: Lease) -> None:
        training: asyncio.Task[StepDone] | None = None
        try:
            for number in range(first, self.job.steps):
                if self._is_late():
                    break
                if number > first:
                    await self._check_limit(number, training)
                began = time.monotonic()
                # With a staleness of 1, the step before is still being trained meanwhile.
                batch = await self._roll_out(number, rollouts)
                if training is not None:
                    await self._take_weights(await training)
                training = asyncio.create_task(self._train(number, batch))
                if self.job.rollouts.staleness == 0 or self._measures(number + 1):
                    await self._take_weights(await training)
                    training = None
                if self._measures(number + 1):
                    await self._evaluate(number + 1, evaluations)
                self._longest_s = max(self._longest_s, time.monotonic() - began)
            if training is not None:
                await self._take_weights(await training)
                training = None
        finally:
            if training is not None:
                training.cancel()
                await asyncio.gather(training, return_exceptions=True)

    async def _roll_out(self, number: int, lease: Lease) -> StepBatch:
        plan = self.cells.rollouts
        began, lag = time.monotonic(), number - self._weights
        await self._cell(plan, plan.cells[number], lease)
        batch = await self._batch(number)
        seconds = time.monotonic() - began
        rate = len(plan.cells[number].samples) / seconds
        more = {"rollouts_per_s": rate, "staleness": float(lag)}
        return StepBatch(batch.rows, {**batch.figures, **more}, batch.said)

    async def _batch(self, number: int) -> StepBatch:
        return await asyncio.to_thread(
            step_batch,
            self.cells.rollouts.cells[number].cell_id,
            self.job.reward,
            self.ends,
            self.run.catalog.home,
            self.job.seed + number,
        )

    async def _train(self, number: int, batch: StepBatch) -> StepDone:
        taken = await self.trainer.train(number + 1, batch)
        figures = {**taken.figures, **batch.figures}
        figures["weights"] = self._version(number + 1)
        self.trainer.note(number + 1, figures)
        self.done.append(figures)
        loss = figures.get("loss")
        note = f"reward {figures['reward']:.2f}, dead {figures['dead_group_share']:.0%}"
        self.show(number + 1, note if loss is None else f"{note}, loss {loss:.3f}")
        return taken

    async def _take_weights(self, taken: StepDone) -> None:
        """Give the engine what a step made, unless it has it."""
        if taken.step > self._weights and taken.weights is not None:
            engine = self.services.engine
            await swap_weights(engine.address.url, taken.weights)
            version = self._version(taken.step)
            await asyncio.to_thread(
                self.services.gateway.set_weights, engine.address.engine_id, version
            )
        self._weights = max(self._weights, taken.step)

    async def _evaluate(self, after: int, lease: Lease, done: int | None = None) -> None:
        """Measure the cell that is planned after so many steps; `done`, where time ended it."""
        plan = self.cells.evaluations
        cell = plan.cells[self.cells.at.index(after)]
        self.show(after, "held-out tasks")
        await self._cell(plan, cell, lease)
        self.evaluated[after if done is None else done] = cell.cell_id

    async def _cell(self, plan: Plan, cell: Cell, lease: Lease) -> None:
        catalog, run_id = self.run.catalog, self.run.run_id
        spending = Spending(plan.suite.budget)
        await run_cell(Execution(plan, self.services, catalog, run_id, lease, spending), cell)

    def _measures(self, step: int) -> bool:
        return step in self.cells.at and step < self.job.steps

    def _is_late(self) -> bool:
        most = self.job.minutes
        return most is not None and time.monotonic() - self._began > most * 60

    async def _check_limit(self, number: int, training: "asyncio.Task[StepDone] | None") -> None:
        """Raise WallTimeReached, with every step that was begun done, where two steps as long as
        the longest do not fit in before the limit."""
        if self.stop_at is None or time.time() + 2 * self._longest_s < self.stop_at:
            return
        if training is not None:
            await self._take_weights(await training)
        raise WallTimeReached(number)

    def _version(self, step: int) -> str:
        return f"{self.job.name}/step-{step}"


def work_folder(home_artifacts: Path, checkpoint_id: str) -> Path:
    """Where a job's batches, weights and state lie until its checkpoint is made."""
    return home_artifacts / f"{checkpoint_id.replace(':', '-')}.work"
