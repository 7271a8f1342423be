"""Starts an interactive program: returns its process when ready, and the resources to close
afterwards."""

import asyncio
from contextlib import ExitStack

from tutti.tasks.sandbox.bounds import START_S
from tutti.tasks.sandbox.process import RunningProcess, StreamCapture, start
from tutti.tasks.sandbox.values import SandboxLimits, SandboxUnavailable
from tutti.tasks.sandbox.walls import READY, Enter, prepared


async def open_ready(
    level: str, identity: str, limits: SandboxLimits, enter: Enter
) -> tuple[RunningProcess, ExitStack]:
    """Start a process that waits for its first message. Raises SandboxUnavailable."""
    with ExitStack() as held:
        command, options = held.enter_context(prepared(level, identity, limits, None, enter))
        running = await start(command, options)
        before, ready = StreamCapture(4 * limits.output_chars), False
        try:
            async with asyncio.timeout(START_S):
                ready = await running.stderr.until(READY, before)
        except TimeoutError:
            before.add(f"no start within {START_S} s".encode())
        finally:
            if not ready:
                await running.discard()
        if not ready:
            raise SandboxUnavailable(f"level {level!r} did not start: {before.text()}")
        return running, held.pop_all()
