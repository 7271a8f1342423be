"""Run one stage: as a Prefect task inside a flow run, as a plain call outside; timed and shown.

In: an async function without arguments. Out: its result. While it runs, its progress is a line or
a bar in the terminal and, in a flow run, a Prefect progress artifact.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from rich.console import Console

from tutti.tasks.progress.display import StageProgress, progress_artifact

T = TypeVar("T")


class StageLog:
    """What the stages of one run took; prints as they go."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.seconds: dict[str, float] = {}

    async def run(self, name: str, work: Callable[["StageProgress"], Coroutine[Any, Any, T]]) -> T:
        """Run `work(progress)` as the stage `name`; errors pass through."""
        started = time.monotonic()
        progress = StageProgress(name, self.console)
        with progress:
            result = await _as_prefect_task(name, work, progress)
        self.seconds[name] = time.monotonic() - started
        self.console.print(f"[green]✓[/] {name} [dim]{self.seconds[name]:.1f} s[/]")
        return result


def in_flow_run() -> bool:
    """Whether this code runs inside a Prefect flow run. Never imports Prefect itself."""
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


async def _as_prefect_task(
    name: str, work: Callable[[StageProgress], Coroutine[Any, Any, T]], progress: StageProgress
) -> T:
    if not in_flow_run():
        return await work(progress)
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    async def stage() -> T:
        async with progress_artifact(progress):
            return await work(progress)

    # A closure without parameters: Prefect would otherwise walk and serialise every argument.
    as_task: Callable[[], Awaitable[T]] = task(name=name, cache_policy=NO_CACHE)(stage)
    return await as_task()
