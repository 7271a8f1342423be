"""The loop of on-policy training: roll out, reward, train, load the new weights into the engine.

With a staleness of 1 the next step's rollouts run while this one is trained. After a kill the job
resumes: finished cells and steps stay, and the engine loads the last weights.
"""

import asyncio
import math
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import Lease, held
from tutti.storage import catalog as cat
from tutti.tasks.platform.progress import Run
from tutti.tasks.serving.engines import asleep, load_adapter, swap_weights
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan import Adapter, Cell, Deployment, Plan, ServedModel, enter_plan
from tutti.tasks.sweeps.run import BudgetTracker, Execution, run_cell
from tutti.tasks.training.jobs.stage import WallTimeReached
from tutti.tasks.training.policy.batch import StepBatch, step_batch, step_groups
from tutti.tasks.training.policy.cells import PolicyCells
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.picks import ProcessJudge
from tutti.tasks.training.policy.trainer import PolicyTrainer, StepDone


@dataclass
class ServedPolicy:
    """The engine that samples, and the opponent's engine, if there is one."""

    job: PolicyJob
    deployment: Deployment
    work: Path
    """The job's folder, with the opponent's weights."""
    step: int = 0
    """The step whose weights sample."""

    async def begin(self, newest: StepDone | None, adapter: Path | None) -> None:
        """Serve the newest weights; before the first step, `adapter`, which changes nothing."""
        if newest is not None:
            await self.take(newest)
        elif adapter is not None:
            await self._serve(adapter)
        if self.job.self_play is not None and self.opponent.is_dir():
            await swap_weights(self._opponent_url(), self.opponent)

    async def take(self, done: StepDone) -> None:
        """Serve the weights of a step, unless they are served already."""
        if done.step > self.step and done.weights is not None:
            await self._serve(done.weights)
            engine_id = self.deployment.engine.address.engine_id
            version = version_of(self.job, done.step)
            await asyncio.to_thread(self.deployment.gateway.set_weights, engine_id, version)
            rounds = self.job.self_play
            if rounds is not None and done.step % rounds.every == 0:
                await asyncio.to_thread(_copy, done.weights, self.opponent)
                await swap_weights(self._opponent_url(), done.weights)
        self.step = max(self.step, done.step)

    @property
    def opponent(self) -> Path:
        """Path of a copy of the opponent's weights, because the trainer removes the original."""
        return self.work / "opponent"

    def at_rest(self) -> AbstractAsyncContextManager[None]:
        """Context of a training step, in which the engine sleeps if the job says so."""
        if not self.job.rollouts.engine_sleeps:
            return nullcontext()
        return asleep(self.deployment.engine.address.url)

    async def _serve(self, folder: Path) -> None:
        url = self.deployment.engine.address.url
        if self.job.lora is None:
            await swap_weights(url, folder)
        else:
            await load_adapter(url, adapter_name(self.job), folder)

    def _opponent_url(self) -> str:
        assert self.job.self_play is not None, "asked for by the job"
        name = self.job.self_play.opponent
        (engine,) = [each for each in self.deployment.others if each.name == name]
        return engine.address.url


def as_sampled(model: Model, job: PolicyJob) -> Model:
    """Return the base's entry for rollouts. It records tokens, and takes adapters only if the job
    trains one, because they slow an engine down considerably."""
    assert model.engine is not None, f"the flow checks the engine of {job.base}"
    engine = model.engine.model_copy(update={"lora": job.lora is not None})
    return model.model_copy(update={"record_tokens": True, "engine": engine})


def adapter_of(job: PolicyJob, base_id: str) -> Adapter | None:
    """Return the adapter that the cells of a job measure. Its parent is the base: the adapter of a
    step is not an artifact, and the final one is derived from the cells."""
    return None if job.lora is None else Adapter(adapter_name(job), base_id, Path())


def version_of(job: PolicyJob, step: int) -> str:
    """Return the name that calls give to the weights after a step."""
    return f"{job.name}/step-{step}"


def adapter_name(job: PolicyJob) -> str:
    """Return the served name of the adapter that a job trains."""
    return f"{job.base}-{job.name}"


def _copy(weights: Path, folder: Path) -> None:
    """Copy a folder, completely or not at all."""
    temporary = folder.with_suffix(".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(weights, temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


Show = Callable[[int, str], None]


@dataclass
class PolicyRun:
    """A policy training in progress."""

    job: PolicyJob
    cells: PolicyCells
    served: ServedPolicy
    trainer: PolicyTrainer
    ends: frozenset[int]
    run: Run
    judge: ServedModel | None = None
    show: Show = lambda done, note: None
    done: list[dict[str, Any]] = field(default_factory=list)
    evaluated: dict[int, str] = field(default_factory=dict)
    """Steps to the cell of the held-out evaluation after them."""
    stop_at: float | None = None
    """When no more steps may begin, in seconds since the epoch."""
    _began: float = field(default_factory=time.monotonic)
    _longest_s: float = 0.0

    async def to_the_end(self) -> None:
        """Run all remaining steps and evaluations. Raises the errors of `run_cell`, `swap_weights`
        and the trainer; the same job then resumes."""
        catalog, rollouts, evaluations = (
            self.run.catalog,
            self.cells.rollouts,
            self.cells.evaluations,
        )
        # Of a step that samples on, the later rounds are entered when they are needed.
        first = replace(rollouts, cells=rollouts.cells[:: self.cells.rounds])
        for plan in (first, evaluations):
            enter_plan(plan, catalog)
        with held(catalog, rollouts.sweep_id) as one, held(catalog, evaluations.sweep_id) as other:
            done = await self._resume(one, other)
            await self._steps(done, one, other)
            await self._evaluate(self.job.steps, other, done=len(self.done))
            await self.trainer.finish()

    async def _resume(self, rollouts: Lease, evaluations: Lease) -> int:
        """Take over the steps of an earlier process; return their number."""
        before, noted = await self.trainer.ready(), self.trainer.noted()
        for each in before:
            more = noted.get(each.step)
            if more is None:  # killed between the step and its note; its cells are finished
                more = dict((await self._batch(each.step - 1, rollouts)).figures)
            self.done.append(each.figures | more)
        await self.served.begin(before[-1] if before else None, self.trainer.adapter)
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
                most_s = (self.job.minutes or math.inf) * 60
                if time.monotonic() - self._began > most_s:
                    break
                if number > first:
                    await self._check_limit(number, training)
                began = time.monotonic()
                # With a staleness of 1, the step before is still being trained meanwhile.
                batch = await self._roll_out(number, rollouts)
                if training is not None:
                    await self.served.take(await training)
                training = asyncio.create_task(self._train(number, batch))
                is_measured = number + 1 in self.cells.at and number + 1 < self.job.steps
                if self.job.rollouts.staleness == 0 or is_measured:
                    await self.served.take(await training)
                    training = None
                if is_measured:
                    await self._evaluate(number + 1, evaluations)
                self._longest_s = max(self._longest_s, time.monotonic() - began)
            if training is not None:
                await self.served.take(await training)
                training = None
        finally:
            if training is not None:
                training.cancel()
                await asyncio.gather(training, return_exceptions=True)

    async def _roll_out(self, number: int, lease: Lease) -> StepBatch:
        began, lag = time.monotonic(), number - self.served.step
        batch = await self._batch(number, lease)
        speed = batch.said["attempts"] / (time.monotonic() - began)
        more = {"rollouts_per_s": speed, "staleness": float(lag)}
        return replace(batch, figures={**batch.figures, **more})

    async def _batch(self, number: int, lease: Lease) -> StepBatch:
        """Sample a step's rounds until there are enough groups; finished cells do not run again."""
        plan, process = self.cells.rollouts, self.job.reward.process
        catalog, gateway = self.run.catalog, self.served.deployment.gateway
        cells: list[str] = []
        for cell in self.cells.of_step(number):
            if cells:
                enter_plan(replace(plan, cells=(cell,)), catalog)
            await self._cell(plan, cell, lease)
            cells.append(cell.cell_id)
            if process is not None and self.judge is not None:
                judge = ProcessJudge(process, self.judge, gateway.url, gateway.flush, catalog)
                await judge.pick_in(plan.sweep_id, cell.cell_id)
            groups = await asyncio.to_thread(
                step_groups, cells, self.job, catalog.home, self.job.seed + number
            )
            if len(groups.sorted.kept) >= self.job.rollouts.groups:
                break
        return await asyncio.to_thread(step_batch, groups, self.job, self.ends, catalog.home)

    async def _train(self, number: int, batch: StepBatch) -> StepDone:
        async with self.served.at_rest():
            taken = await self.trainer.train(number + 1, batch)
        figures = {**taken.figures, **batch.figures}
        figures["weights"] = version_of(self.job, number + 1)
        self.trainer.note(number + 1, figures)
        self.done.append(figures)
        loss = figures.get("loss")
        note = f"reward {figures['reward']:.2f}, dead {figures['dead_group_share']:.0%}"
        if unjudged := batch.said["groups"]["unjudged"]:
            note += f", {unjudged} groups left out without a judge's verdict"
        self.show(number + 1, note if loss is None else f"{note}, loss {loss:.3f}")
        return taken

    async def _evaluate(self, after: int, lease: Lease, done: int | None = None) -> None:
        """Measure the cell planned after `after` steps; `done`: steps, if time ended the
        training."""
        plan = self.cells.evaluations
        cell = plan.cells[self.cells.at.index(after)]
        self.show(after, "held-out tasks")
        await self._cell(plan, cell, lease)
        self.evaluated[after if done is None else done] = cell.cell_id

    async def _cell(self, plan: Plan, cell: Cell, lease: Lease) -> None:
        catalog, cells = self.run.catalog, cat.cells.c
        rows = catalog.rows(sa.select(cells.status).where(cells.cell_id == cell.cell_id))
        if any(row["status"] == cat.ENDED_EARLY for row in rows):
            return  # its late attempts stay cut, so that a job that goes on trains on the same
        spending = BudgetTracker(plan.suite.budget)
        late = None if plan is self.cells.evaluations else self.job.rollouts.late_factor
        deployment, run_id = self.served.deployment, self.run.run_id
        await run_cell(Execution(plan, deployment, catalog, run_id, lease, spending, late), cell)

    async def _check_limit(self, number: int, training: "asyncio.Task[StepDone] | None") -> None:
        """Raise WallTimeReached, with every started step finished, if two steps as long as the
        longest do not fit before the limit."""
        if self.stop_at is None or time.time() + 2 * self._longest_s < self.stop_at:
            return
        if training is not None:
            await self.served.take(await training)
        raise WallTimeReached(number)
