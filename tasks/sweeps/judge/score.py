"""A judge of the registry, served for a stored sweep: to score it again, or to hold an arena.

Run: ``tutti score SWEEP --judge NAME``, ``tutti arena A B --judge NAME``.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tutti.storage import Catalog, content_hash
from tutti.tasks.progress import StageLog
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.judge.arena import Answers, ArenaResult, enter_preferences, play
from tutti.tasks.sweeps.judge.compare import Side
from tutti.tasks.sweeps.judge.rescore import (
    JudgeOf,
    Judging,
    RescoreResult,
    ScoringRequest,
    rescore,
)
from tutti.tasks.sweeps.plan import open_judge, serving_of
from tutti.tasks.sweeps.run import open_bench


async def score_sweep(
    sweep_id: str,
    catalog: Catalog,
    request: ScoringRequest,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> RescoreResult:
    """Score a sweep again; what serves the judge is started for it.

    Its calls have the attempts' ids and no cell: what a cell's calls took stays what was measured.
    Raises as `open_bench` and `rescore`.
    """
    if request.judge is None:
        return await rescore(sweep_id, catalog, request, on_progress)
    models = pick_models(request.models, (request.judge,))
    async with open_bench(models, None, catalog, StageLog()) as bench:
        gateway = (await bench.services()).gateway
        async with open_judge(gateway.url, bench.serving.served[request.judge]) as judge_of:
            judging = Judging(judge_of, gateway.flush)
            return await rescore(sweep_id, catalog, request, on_progress, judging)


@asynccontextmanager
async def serve_judge(judge: str, models: Path, catalog: Catalog) -> AsyncIterator[JudgeOf]:
    """An entry of the registry as a judge behind a gateway, for the block. Raises as
    `open_bench`."""
    async with open_bench(pick_models(models, (judge,)), None, catalog, StageLog()) as bench:
        gateway = (await bench.services()).gateway
        async with open_judge(gateway.url, bench.serving.served[judge]) as judge_of:
            yield judge_of


def judge_identity(judge: str, models: Path, catalog: Catalog) -> str:
    """What a judge is, for ids: as in those of sweeps, what serves it and what it is sent.

    Raises RegistryError.
    """
    served = serving_of(pick_models(models, (judge,)), catalog).served[judge]
    return f"{judge}-{content_hash(served.content)}"


async def hold_arena(
    sides: Sequence[Side],
    answers: Answers,
    judge: str,
    models: Path,
    catalog: Catalog,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ArenaResult:
    """Have a judge compare stored answers, and enter its preferences; what serves it is started.

    Raises as `open_bench` and `play`.
    """
    identity = judge_identity(judge, models, catalog)
    async with serve_judge(judge, models, catalog) as judge_of:
        found = await play(answers, identity, judge_of, catalog, on_progress)
    enter_preferences(catalog, sides, found)
    return found
