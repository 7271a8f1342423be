"""Tests of stages: settings at the function's head, identical with and without Prefect."""

import asyncio
import subprocess
import sys

import pytest
from prefect.cache_policies import NO_CACHE

from tutti.tasks.platform.progress import StageLog, StageProgress, stage

TRIES: list[str] = []


class Busy(Exception):
    """Error that may pass."""


@pytest.fixture(autouse=True)
def _no_tries() -> None:
    TRIES.clear()


@stage(name="fetch", retries=2, retry_on=(Busy,), timeout_s=0.2, tags=("network",))
async def fetch(progress: StageProgress, failures: int, error: type[Exception] = Busy) -> str:
    """Fail `failures` times."""
    progress.show(1, 2)
    TRIES.append(progress.name)
    if len(TRIES) <= failures:
        raise error("not now")
    return "fetched"


@stage(name="sleep", timeout_s=0.01)
async def sleep(progress: StageProgress) -> None:
    """Sleep longer than the limit."""
    await asyncio.sleep(5)


async def test_a_stage_is_retried_on_its_own_errors_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A stage runs under its name or under a title."""
    log = StageLog()
    assert await fetch(log, 2) == "fetched" and len(TRIES) == 3
    assert "fetch: again in 0 s, 1 more: not now" in capsys.readouterr().err
    TRIES.clear()
    with pytest.raises(Busy):
        await fetch.titled(log, "fetch the second", 9)
    assert TRIES == ["fetch the second"] * 3
    TRIES.clear()
    with pytest.raises(ValueError, match="not now"):
        await fetch(log, 9, error=ValueError)
    assert len(TRIES) == 1
    assert list(log.seconds) == ["fetch"], "what failed has no time"


async def test_a_stage_ends_at_its_limit() -> None:
    with pytest.raises(TimeoutError):
        await sleep(StageLog())


def test_the_prefect_task_has_the_settings_and_no_closure() -> None:
    """All calls of a stage use one task, whose function is at the top level of a module."""
    task = fetch.as_task
    assert task is fetch.as_task
    assert (task.name, task.description) == ("fetch", "Fail `failures` times.")
    assert (task.retries, task.timeout_seconds, task.tags) == (2, 0.2, {"network"})
    assert task.cache_policy == NO_CACHE and task.task_run_name == "{call.title}"
    assert task.fn.__closure__ is None and "<locals>" not in task.fn.__qualname__


def test_retries_without_their_errors_are_refused() -> None:
    with pytest.raises(AssertionError, match="`retries` needs `retry_on`"):
        stage(name="x", retries=1)


def test_a_plain_call_imports_no_prefect() -> None:
    code = """
import asyncio, sys
from tutti.tasks.platform.progress import StageLog, StageProgress, leave_page, stage
@stage(name="x")
async def work(progress, n): return n
async def main():
    assert await work(StageLog(), 3) == 3
    await leave_page("text", "key", "words")
asyncio.run(main())
assert not any(name.split(".")[0] == "prefect" for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
