"""Stages: top-level async functions that declare their retries and limits.

A function whose first argument is its progress becomes a `Stage` by ``@stage(name=…)``; a caller
passes the run's `StageLog` in place of the progress. Inside a flow run the call is a Prefect task;
outside it is a plain call that imports no Prefect. Both are timed and shown.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from rich.console import Console
from rich.text import Text

from tutti.tasks.platform.progress.display import StageProgress, progress_artifact

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate[StageProgress, P], Coroutine[Any, Any, T]]


class StageLog:
    """The times of one run's stages; prints them as they end."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.seconds: dict[str, float] = {}

    def enter(self, title: str, seconds: float) -> None:
        self.seconds[title] = seconds
        self.console.print(f"[green]✓[/] {title} [dim]{seconds:.1f} s[/]")


@dataclass(frozen=True, kw_only=True)
class stage:
    """Decorator that declares a top-level async function as a stage, with its settings."""

    name: str  # the task's name in Prefect, and the title of a call that has no other
    retries: int = 0
    retry_delay_s: float = 0.0
    retry_on: tuple[type[Exception], ...] = ()  # only these errors are retried
    timeout_s: float | None = None  # a longer call is cancelled; a thread that it started runs on
    tags: tuple[str, ...] = ()  # of the Prefect task: each may have a concurrency limit

    def __post_init__(self) -> None:
        assert not self.retries or self.retry_on, f"{self.name}: `retries` needs `retry_on`"

    def __call__(self, work: "Work[P, T]") -> "Stage[P, T]":
        return Stage(work, self)


class StageCall:
    """One call of a stage, the only argument of its Prefect task. Prefect would walk and copy
    dataclasses, models and containers: a plan of 100,000 samples would take seconds."""

    def __init__(
        self, title: str, progress: StageProgress, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        self.title, self.progress, self.work = title, progress, work


class Stage(Generic[P, T]):
    """A declared stage, which the decorator `stage` creates from a function."""

    def __init__(self, work: Work[P, T], settings: stage) -> None:
        self.work, self.settings = work, settings
        self.__doc__ = work.__doc__

    async def __call__(self, log: StageLog, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the stage under its own name; errors pass through."""
        return await self.titled(log, self.settings.name, *args, **kwargs)

    async def titled(self, log: StageLog, title: str, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the stage under `title`, because one stage may run for each of many cells."""
        started = time.monotonic()
        progress = StageProgress(title, log.console)
        call = StageCall(title, progress, partial(self.work, progress, *args, **kwargs))
        with progress:
            result: T = await (self.as_task(call) if in_flow_run() else self._plainly(call))
        log.enter(title, time.monotonic() - started)
        return result

    @cached_property
    def as_task(self) -> Any:
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        settings = self.settings
        return task(
            name=settings.name,
            task_run_name="{call.title}",
            description=self.__doc__,
            tags=settings.tags,
            retries=settings.retries,
            retry_delay_seconds=settings.retry_delay_s,
            retry_condition_fn=self.may_retry,
            timeout_seconds=settings.timeout_s,
            cache_policy=NO_CACHE,
        )(_with_artifact)

    async def may_retry(self, task: Any, task_run: Any, state: Any) -> bool:
        """Whether Prefect may run the task again; Prefect requires an async method."""
        return isinstance(state.data, self.settings.retry_on)

    async def _plainly(self, call: StageCall) -> T:
        settings = self.settings
        for left in range(settings.retries, -1, -1):
            try:
                async with asyncio.timeout(settings.timeout_s):
                    result: T = await call.work()
                    return result
            except settings.retry_on as error:
                if not left:
                    raise
                again = f"again in {settings.retry_delay_s:g} s, {left} more"
                call.progress.console.print(Text(f"{call.title}: {again}: {error}", "yellow"))
            await asyncio.sleep(settings.retry_delay_s)
        raise AssertionError("the last attempt returns or raises")


def in_flow_run() -> bool:
    """Whether this code runs inside a Prefect flow run. Never imports Prefect itself."""
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


async def _with_artifact(call: StageCall) -> Any:
    async with progress_artifact(call.progress):
        return await call.work()
