"""The API for Python programs: `tutti.run` measures, `tutti.query` and `tutti.connect` read.

The names are in `tutti/__init__.py`, which loads this module when `run` is first used.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, Unpack

from tutti.storage import query
from tutti.tasks.sweeps.from_flags import RunSettings, keep_sweep

__all__ = ["RunSettings", "SweepResult", "run"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep."""

    sweep_id: str
    name: str
    suite: Path
    """The suite file that repeats the sweep."""
    models: Path
    """The registry that the suite's models are in."""
    unfinished_cells: int
    """Cells that are incomplete; the same call resumes them."""

    def results(self) -> list[dict[str, Any]]:
        """Return the sweep's current rows of the view `results`, one for each cell."""
        statement = "select * from results where sweep_id = $sweep order by concurrency, policy"
        return query(statement, parameters={"sweep": self.sweep_id})


def run(benchmark: str, model: str, **settings: Unpack[RunSettings]) -> SweepResult:
    """Measure a model with a benchmark, as `tutti run` does.

    Args:
        benchmark: A public benchmark, as ``gsm8k`` or ``aime-25:16``, or ``stdlib``.
        model: An entry of the model registry, or the URL of an OpenAI-compatible endpoint.
        settings: The flags of `tutti run`: ``concurrency=(4, 16)``, ``limit=50`` and so on.

    The same call resumes an interrupted sweep and reuses what is measured. Progress and the result
    table are printed. Raises TuttiError, ValidationError for an invalid setting, or TypeError for
    an unknown one.
    """
    known = RunSettings.__annotations__
    for name in settings.keys() - known.keys():
        near = get_close_matches(name, known, 1)
        meant = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
        raise TypeError(f"run() got an unexpected keyword argument {name!r}{meant}")
    return _run_in_loop(lambda: _measure(benchmark, model, settings))


async def _measure(benchmark: str, model: str, settings: RunSettings) -> SweepResult:
    kept = await keep_sweep(benchmark, model, settings)
    # Prefect reads this when it is imported: its own progress lines would break up ours.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    from tutti.flows.sweep import eval_sweep
    from tutti.tasks.sweeps.plan import unfinished_cells

    sweep_id: str = await eval_sweep.fn(kept.suite, kept.models)
    left = unfinished_cells(kept.suite, sweep_id)
    return SweepResult(sweep_id, kept.suite.name, kept.path, kept.models, left)


def _run_in_loop(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine to its end; use a thread if this one has a running loop, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(lambda: asyncio.run(work())).result()
