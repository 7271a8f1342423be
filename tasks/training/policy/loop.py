"""The loop of on-policy training: roll out, reward, train, give the engine the new weights.

In: a job and a deployment (engine, gateway, agent loop). Out: a trained checkpoint, its held-out
scores, rows of `train_steps`. With a staleness of 1 the next step's rollouts run while this one is
trained; the weights are changed under them, and each call says which weights it began and ended
with. Killed, the job goes on: finished cells and steps are kept, the engine gets the last weights.

The engines serve the newest policy, and the opponent of its round; the gateway is told their
version, so that each call says which weights answered it. A job that goes on gives them again.
"""

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, Lease, held
from tutti.storage import catalog as cat
from tutti.tasks.runs import Run
from tutti.tasks.serving import Model
from tutti.tasks.serving.engines import asleep, load_adapter, swap_weights
from tutti.tasks.sweeps.plan import Adapter, Cell, Deployment, Plan, ServedModel, enter_plan
from tutti.tasks.sweeps.run import BudgetTracker, Execution, run_cell
from tutti.tasks.training.policy.batch import StepBatch, step_batch, step_groups
from tutti.tasks.training.policy.cells import PolicyCells
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.picks import ProcessJudge
from tutti.tasks.training.policy.trainer import PolicyTrainer, StepDone
from tutti.tasks.training.stage import WallTimeReached

OPPONENT = "opponent"


@dataclass
class ServedPolicy:
    """The engine that samples, and that of the opponent where there is one."""

    job: PolicyJob
    deployment: Deployment
    work: Path
    """Of the job: the opponent's weights are kept there."""
    step: int = 0
    """The step whose weights sample."""

    async def begin(self, newest: StepDone | None, adapter: Path | None) -> None:
        """Serve what was trained so far; at first of an adapter that which changes nothing."""
        if newest is not None:
            await self.take(newest)
        elif adapter is not None:
            await self._serve(adapter)
        kept = self.work / OPPONENT
        if self.job.self_play is not None and kept.is_dir():
            await swap_weights(self._opponent_url(), kept)

    async def take(self, made: StepDone) -> None:
        """Serve what a step made, unless that is served already."""
        if made.step > self.step and made.weights is not None:
            await self._serve(made.weights)
            engine_id = self.deployment.engine.address.engine_id
            version = version_of(self.job, made.step)
            await asyncio.to_thread(self.deployment.gateway.set_weights, engine_id, version)
            rounds = self.job.self_play
            if rounds is not None and made.step % rounds.every == 0:
                await asyncio.to_thread(_keep, made.weights, self.work / OPPONENT)
                await swap_weights(self._opponent_url(), made.weights)
        self.step = max(self.step, made.step)

    def at_rest(self) -> AbstractAsyncContextManager[None]:
        """While a step is trained: the engine sleeps where the job asks for it."""
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
    """The base's entry for rollouts: its tokens are recorded, and it takes adapters only if the job
    trains one, because they cost an engine much of its speed."""
    assert model.engine is not None, "the flow has looked"
    engine = model.engine.model_copy(update={"lora": job.lora is not None})
    return model.model_copy(update={"record_tokens": True, "engine": engine})


def adapter_of(job: PolicyJob, base_id: str) -> Adapter | None:
    """The adapter that a job trains, as what its cells measure; its folder changes with each step.

    Its cells come from the base: the adapter of a step is no artifact, and the one that is entered
    at the end comes from the cells.
    """
    return None if job.lora is None else Adapter(adapter_name(job), base_id, Path())


def version_of(job: PolicyJob, step: int) -> str:
    """How calls name the weights after a step."""
    return f"{job.name}/step-{step}"


def adapter_name(job: PolicyJob) -> str:
    """The served name of the adapter that a job trains."""
    return f"{job.base}-{job.name}"


def _keep(weights: Path, folder: Path) -> None:
    """Copy weights that the trainer will remove, whole or not at all."""
    temporary = folder.with_suffix(".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(weights, temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


Show = Callable[[int, str], None]
"""(steps done, what to say)."""


@dataclass
class PolicyRun:
    """A policy training under way."""

    job: PolicyJob
    cells: PolicyCells
    served: ServedPolicy
    trainer: PolicyTrainer
    ends: frozenset[int]
    run: Run
    judge: ServedModel | None = None
    """Who picks turns, where the job asks for it."""
    show: Show = lambda done, note: None
    done: list[dict[str, Any]] = field(default_factory=list)
    """Figures of every step so far."""
    evaluated: dict[int, str] = field(default_factory=dict)
    """Cell of the held-out evaluation after so many steps."""
    stop_at: float | None = None
    """When no more steps may begin, in seconds since the epoch."""
    _began: float = field(default_factory=time.monotonic)
    _longest_s: float = 0.0

    async def to_the_end(self) -> None:
        """Every step that is left, and the evaluations. Raises what `run_cell`, `swap_weights` and
        the trainer raise; the same job goes on from there."""
        catalog, rollouts = self.run.catalog, self.cells.rollouts
        # Of a step that samples on, the later rounds are entered when they are needed.
        first = replace(rollouts, cells=rollouts.cells[:: self.cells.rounds])
        for plan in (first, self.cells.evaluations):
            enter_plan(plan, catalog)
        with ExitStack() as stack:
            leases = [
                stack.enter_context(held(catalog, plan.sweep_id))
                for plan in (self.cells.rollouts, self.cells.evaluations)
            ]
            done = await self._go_on(*leases)
            await self._steps(done, *leases)
            await self._evaluate(self.job.steps, leases[1], done=len(self.done))
            await self.trainer.finish()

    async def _go_on(self, rollouts: Lease, evaluations: Lease) -> int:
        """Take over what was done before this process; returns the steps that were."""
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
                if self._is_late():
                    break
                if number > first:
                    await self._check_limit(number, training)
                began = time.monotonic()
                # With a staleness of 1, the step before is still being trained meanwhile.
                batch = await self._roll_out(number, rollouts)
                if training is not None:
                    await self.served.take(await training)
                training = asyncio.create_task(self._train(number, batch))
                if self.job.rollouts.staleness == 0 or self._measures(number + 1):
                    await self.served.take(await training)
                    training = None
                if self._measures(number + 1):
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
        seconds = time.monotonic() - began
        more = {"rollouts_per_s": batch.said["attempts"] / seconds, "staleness": float(lag)}
        return StepBatch(batch.rows, {**batch.figures, **more}, batch.said)

    async def _batch(self, number: int, lease: Lease) -> StepBatch:
        """Sample a step's rounds until there are groups enough; of finished cells nothing runs."""
        plan, wanted = self.cells.rollouts, self.job.rollouts.groups
        cells: list[str] = []
        for cell in self.cells.of_step(number):
            if cells:
                enter_plan(replace(plan, cells=(cell,)), self.run.catalog)
            await self._cell(plan, cell, lease)
            cells.append(cell.cell_id)
            await self._judge(plan, cell)
            found = await asyncio.to_thread(
                step_groups, cells, self.job, self.run.catalog.home, self.job.seed + number
            )
            if len(found.sorted.kept) >= wanted:
                break
        return await asyncio.to_thread(
            step_batch, found, self.job, self.ends, self.run.catalog.home
        )

    async def _judge(self, plan: Plan, cell: Cell) -> None:
        process, gateway = self.job.reward.process, self.served.deployment.gateway
        if process is None or self.judge is None:
            return
        judge = ProcessJudge(process, self.judge, gateway.url, gateway.flush, self.run.catalog)
        await judge.pick_in(plan.sweep_id, cell.cell_id)

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
        """Measure the cell that is planned after so many steps; `done`, where time ended it."""
        plan = self.cells.evaluations
        cell = plan.cells[self.cells.at.index(after)]
        self.show(after, "held-out tasks")
        await self._cell(plan, cell, lease)
        self.evaluated[after if done is None else done] = cell.cell_id

    async def _cell(self, plan: Plan, cell: Cell, lease: Lease) -> None:
        catalog, run_id = self.run.catalog, self.run.run_id
        if _ended_early(catalog, cell):
            return  # its late attempts stay cut, so that a job that goes on trains on the same
        spending, late = BudgetTracker(plan.suite.budget), None
        if plan is not self.cells.evaluations:
            late = self.job.rollouts.late_factor
        await run_cell(
            Execution(plan, self.served.deployment, catalog, run_id, lease, spending, late), cell
        )

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
            await self.served.take(await training)
        raise WallTimeReached(number)


def _ended_early(catalog: Catalog, cell: Cell) -> bool:
    cells = cat.cells.c
    rows = catalog.rows(sa.select(cells.status).where(cells.cell_id == cell.cell_id))
    return bool(rows) and rows[0]["status"] == cat.ENDED_EARLY


def work_folder(home_artifacts: Path, checkpoint_id: str) -> Path:
    """Where a job's batches, weights and state lie until its checkpoint is made."""
    return home_artifacts / f"{checkpoint_id.replace(':', '-')}.work"
