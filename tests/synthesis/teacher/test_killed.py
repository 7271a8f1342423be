"""Tests that a teacher that is killed (SIGKILL) at any call resumes without paying for a response
twice."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.synthesis.teacher.lending import SCRIPT
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving

WHOLE = 18
"""Calls that the domain takes, corrections included."""


async def start(endpoint: ScriptedEndpoint, folder: Path, *more: str) -> asyncio.subprocess.Process:
    module = "tests.synthesis.teacher.killed_teacher"
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, endpoint.url, str(folder), *more),
        stdout=asyncio.subprocess.PIPE,
    )


async def wait_for(endpoint: ScriptedEndpoint, process: asyncio.subprocess.Process) -> None:
    """Wait until the process waits for a response that never comes."""
    async with asyncio.timeout(60):
        while not endpoint.waiting:
            assert process.returncode is None, "it ended before it was killed"
            await asyncio.sleep(0.02)
    await asyncio.sleep(1.0)  # what was answered beside it is written


@pytest.mark.slow
async def test_a_batch_of_a_killed_process_is_found_again(tmp_path: Path) -> None:
    async with serving(ScriptedEndpoint(SCRIPT, polls_before_end=10**9)) as endpoint:
        process = await start(endpoint, tmp_path, "batch")
        async with asyncio.timeout(60):
            while not endpoint.batches or not endpoint.batches["batch-0"]["polls"]:
                assert process.returncode is None, "it ended before it was killed"
                await asyncio.sleep(0.02)
        process.kill()
        await process.wait()
        endpoint.polls_before_end = 0
        out, _ = await (await start(endpoint, tmp_path, "batch")).communicate()
        assert out.split() == [b"3", str(WHOLE - 1).encode()]  # `tables` was paid before
        assert set(endpoint.answered.values()) == {1}
        assert len(endpoint.batches) == 3  # records, tasks, evolutions


@pytest.mark.slow
# 5 and 13: an answer is paid and its product, which must be corrected, is not stored yet
@pytest.mark.parametrize("after", [1, 5, 13])
async def test_no_answer_is_paid_twice(after: int, tmp_path: Path) -> None:
    async with serving(ScriptedEndpoint(SCRIPT, hold_after=after)) as endpoint:
        process = await start(endpoint, tmp_path)
        await wait_for(endpoint, process)
        process.kill()
        await process.wait()
        paid = endpoint.answered.total()
        assert paid == after
        endpoint.hold_after = None
        out, _ = await (await start(endpoint, tmp_path)).communicate()
        assert out.split() == [b"3", str(WHOLE - paid).encode()]
        assert endpoint.answered.total() == WHOLE
        assert set(endpoint.answered.values()) == {1}
