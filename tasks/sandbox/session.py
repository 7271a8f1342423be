"""Sessions: a program's cells run one after another in one interpreter, as in a notebook.

    async with SandboxSession(level_for_models()) as session:
        await session.run("x = 6")
        result = await session.run("x * 7")  # output "42\n"

Each cell has the isolation and limits of a one-shot run. A cell that exceeds its time or memory, or
exits, ends its session; the next cell starts a new one, and its result says why. Threads and
processes that a cell left running continue until the session closes. A session dies with the
process that opened it.
"""

import asyncio
import secrets
import time
from contextlib import ExitStack
from types import TracebackType

from tutti.tasks.sandbox import child
from tutti.tasks.sandbox.bounds import overrun
from tutti.tasks.sandbox.opening import open_ready
from tutti.tasks.sandbox.process import RunningProcess, StreamCapture
from tutti.tasks.sandbox.values import (
    DEFAULT_LIMITS,
    ProgramOutput,
    SandboxLimits,
    SandboxResult,
    SandboxUnavailable,
    Status,
    make_result,
)
from tutti.tasks.sandbox.walls import checked_identity
from tutti.tasks.sandbox.watch import WATCH

_IDLE_LOOK_S = 0.5
_LOST = "new session: {why}; variables and files of earlier calls are gone"


class SandboxSession:
    """One program's interpreter: started by its first cell, and restarted after it was lost."""

    def __init__(self, level: str, limits: SandboxLimits = DEFAULT_LIMITS) -> None:
        """Probe the level (once a process). Raises SandboxUnavailable if it does not work."""
        self._identity = checked_identity(level)
        self.level = level
        self.limits = limits
        self._running: RunningProcess | None = None
        self._held = ExitStack()
        self._lock = asyncio.Lock()
        self._lost = ""
        self._guard: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether there is an interpreter with the state of earlier cells."""
        return self._running is not None

    async def run(self, code: str) -> SandboxResult:
        """Run one cell to its end or its limits; concurrent cells are run one after the other.

        Raises SandboxUnavailable if an interpreter could not be started or stopped.
        """
        async with self._lock:
            began = time.perf_counter()
            self._stop_guard()
            restarted, self._lost = self._lost, ""
            start_s = 0.0
            if self._running is None:
                await self._open()
                start_s = time.perf_counter() - began
            try:
                printed = await self._run_cell(code)
            except (asyncio.CancelledError, SandboxUnavailable) as error:
                await self._lose(str(error) or "the last call was cancelled")
                raise
            if self._running is not None and self.level != "limits":
                self._guard = asyncio.create_task(self._watch_idle(self._running.pid))
            seconds, most = time.perf_counter() - began, self.limits.output_chars
            return make_result(printed, seconds, most, start_s=start_s, restarted=restarted)

    async def close(self, why: str = "") -> None:
        """End the interpreter; a given reason appears in the next call's result. Waits for a
        running cell."""
        async with self._lock:
            self._stop_guard()
            await self._lose(why)

    async def __aenter__(self) -> "SandboxSession":
        """The session itself; nothing is started yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()

    async def _open(self) -> None:
        opened = await open_ready(self.level, self._identity, self.limits, child.serve_cells)
        self._running, self._held = opened

    async def _run_cell(self, code: str) -> ProgramOutput:
        """How the cell ended, and both its streams; discards a session that the cell ended."""
        running = self._running
        assert running is not None, "opened by the caller"
        cell = _Cell(running, self.limits.output_chars)
        reading = asyncio.ensure_future(cell.exchange(code))
        try:
            over = await overrun(reading, running.pid, self.limits, self.level)
        except asyncio.CancelledError:
            await running.ended(reading)
            raise
        if over is None and (status := reading.result()) is not None:
            return ProgramOutput(cell.out.text(), cell.errors.text(), status)
        await running.ended(reading)
        status, words = over or (await running.exit_status(self.level), "")
        await self._lose(words.strip() or _REASONS[status].format(self.limits.seconds))
        return ProgramOutput(cell.out.text(), cell.errors.text() + words, status)

    async def _watch_idle(self, pid: int) -> None:
        """Apply a cell's limits to what a cell left running; end the session if they are
        exceeded."""
        why = await WATCH.trouble(pid, self.limits, _IDLE_LOOK_S)
        async with self._lock:
            await self._lose(why)

    def _stop_guard(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

    async def _lose(self, why: str) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        self._lost = _LOST.format(why=why) if why else ""
        try:
            await running.discard()
        finally:
            self._held.close()


_OUTCOMES: dict[bytes, Status] = {b"o": "ok", b"e": "error"}
_REASONS: dict[Status, str] = {
    "ok": "the program ended it",
    "error": "the program ended it",
    "killed": "it was killed",
    "timeout": "the last call was stopped after {} s",
}


class _Cell:
    """The exchange of one cell with the interpreter."""

    def __init__(self, running: RunningProcess, most_chars: int) -> None:
        self._running = running
        most_bytes = 4 * most_chars + 4  # at most 4 bytes per character
        self.out, self.errors = StreamCapture(most_bytes), StreamCapture(most_bytes, keep_end=True)

    async def exchange(self, code: str) -> Status | None:
        """Send the cell and read its output to the end; None if the interpreter ended first."""
        # The mark is unknown before the cell runs; a program that then finds it only ends its own
        # cell early.
        mark = b"\0" + secrets.token_hex(16).encode() + b"\0"
        source = code.encode("utf-8", "replace")
        _, printed, outcome = await asyncio.gather(
            self._send(mark + b" %d\n" % len(source) + source),
            self._running.stdout.until(mark, self.out),
            self._outcome(mark),
        )
        return outcome if printed else None

    async def _send(self, data: bytes) -> None:
        try:
            self._running.stdin.write(data)
            await self._running.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return  # it has ended, as the end of its streams shows

    async def _outcome(self, mark: bytes) -> Status | None:
        if not await self._running.stderr.until(mark, self.errors):
            return None
        said = await self._running.stderr.exactly(1)
        return _OUTCOMES.get(said)
