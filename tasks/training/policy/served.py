"""What the engines serve during a training: the newest policy, and the opponent of its round.

In: weights that the trainer wrote. Out: engines with them, and the gateway told their version, so
that each call says which weights answered it. A job that goes on gives them again.
"""

import asyncio
import shutil
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tutti.tasks.serving import Model, asleep, load_adapter, swap_weights
from tutti.tasks.sweeps.plan import Adapter, Deployment
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.trainer import StepDone

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
