"""Runs one program: its source in, its output and exit status out."""

import asyncio
import time
from contextlib import suppress

from tutti.tasks.sandbox.bounds import START_S, overrun
from tutti.tasks.sandbox.process import RunningProcess, StreamCapture, start
from tutti.tasks.sandbox.talk import TalkResult, talk
from tutti.tasks.sandbox.values import (
    DEFAULT_LIMITS,
    ProgramOutput,
    SandboxLimits,
    SandboxResult,
    SandboxUnavailable,
    make_result,
)
from tutti.tasks.sandbox.walls import READY, checked_identity, prepared


class Sandbox:
    """Runs programs at one level; any number concurrently."""

    def __init__(self, level: str, limits: SandboxLimits = DEFAULT_LIMITS) -> None:
        """Probe the level (once a process). Raises SandboxUnavailable if it does not work."""
        self._identity = checked_identity(level)
        self.level = level
        self.limits = limits

    async def run(self, code: str, limits: SandboxLimits | None = None) -> SandboxResult:
        """Run `code` to its end or its limits: `limits`, or else this sandbox's; no process
        outlives the call, even if it is cancelled.

        Raises SandboxUnavailable if the program could not be started or stopped.
        """
        limits, began = limits or self.limits, time.perf_counter()
        with prepared(self.level, self._identity, limits, code) as (command, options):
            reader = _Reader(await start(command, options), limits.output_chars)
            reading = asyncio.ensure_future(reader.read())
            over = None
            try:
                if await reader.started():
                    over = await overrun(reading, reader.running.pid, limits, self.level)
            finally:
                await reader.running.ended(reading)
        reading.result()
        if reader.ready_at is None:
            reason = reader.before.text() or f"no start within {START_S} s"
            raise SandboxUnavailable(f"level {self.level!r} did not start: {reason}")
        status, why = over or (await reader.running.exit_status(self.level), "")
        return make_result(
            ProgramOutput(reader.out.text(), reader.errors.text() + why, status),
            time.perf_counter() - began,
            limits.output_chars,
            start_s=reader.ready_at - began,
        )

    async def talk(
        self, asker: str, answerer: str, limits: SandboxLimits | None = None
    ) -> TalkResult:
        """Connect two programs in a dialogue, each in its own sandbox (`talk`), within `limits`, or
        else this sandbox's.

        Raises SandboxUnavailable like `run`.
        """
        return await talk(self.level, self._identity, limits or self.limits, asker, answerer)


class _Reader:
    """Reads both streams of a program to their ends."""

    def __init__(self, running: RunningProcess, most_chars: int) -> None:
        self.running = running
        most_bytes = 4 * most_chars + 4  # at most 4 bytes per character
        self.out, self.errors = StreamCapture(most_bytes), StreamCapture(most_bytes, keep_end=True)
        self.before = StreamCapture(most_bytes)
        self.ready_at: float | None = None
        self._ready = asyncio.Event()

    async def read(self) -> None:
        """Read until both streams and the process have ended."""
        await asyncio.gather(
            self.running.stdout.until(None, self.out),
            self._errors(),
            self.running.exit_status("limits"),
        )

    async def started(self) -> bool:
        """Wait for the program's first statement; False if the launcher fails or takes too long."""
        with suppress(TimeoutError):
            # `wait_for` loses a cancellation that arrives at the same time
            async with asyncio.timeout(START_S):
                await self._ready.wait()
        return self.ready_at is not None

    async def _errors(self) -> None:
        found = await self.running.stderr.until(READY, self.before)
        self.ready_at = time.perf_counter() if found else None
        self._ready.set()
        if found:
            await self.running.stderr.until(None, self.errors)
