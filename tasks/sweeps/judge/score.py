"""Score a stored sweep again, by a judge of the registry where one is named.

Run: ``tutti score SWEEP --judge NAME``.
"""

from collections.abc import Callable
from pathlib import Path

from tutti.storage import Catalog
from tutti.tasks.progress import StageLog
from tutti.tasks.project import MODELS
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.judge.rescore import RescoreResult, rescore
from tutti.tasks.sweeps.plan import open_judge
from tutti.tasks.sweeps.run import open_bench


async def score_sweep(
    sweep_id: str,
    catalog: Catalog,
    scorer: str | None = None,
    judge: str | None = None,
    models: Path = MODELS,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> RescoreResult:
    """Score a sweep again; what serves the judge is started for it.

    Its calls have the attempts' ids and no cell: what a cell's calls took stays what was measured.
    Raises as `open_bench` and `rescore`.
    """
    if judge is None:
        return await rescore(sweep_id, catalog, scorer, on_progress)
    async with open_bench(pick_models(models, (judge,)), None, catalog, StageLog()) as bench:
        gateway = (await bench.services()).gateway
        async with open_judge(gateway.url, bench.serving.served[judge]) as judge_of:
            return await rescore(sweep_id, catalog, scorer, on_progress, judge_of, gateway.flush)
