"""Sessions: a program's cells run one after another in one interpreter, as in a notebook.

A cell that exceeds its time or memory, or exits, ends its session; the next cell starts a new one,
and its result says why. Threads and processes that a cell left running continue until the session
closes. A session dies with the process that opened it.
"""

import asyncio
import secrets
import time
from contextlib import ExitStack, suppress

from tutti.tasks.sandbox import child
from tutti.tasks.sandbox.process import RunningProcess, StreamCapture, open_ready, overrun
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
        """Probe the level (once per process). Raises SandboxUnavailable if it does not work."""
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
        return self._running is not None

    async def run(self, code: str) -> SandboxResult:
        """Run one cell to its end or its limits, one after the other. Raises SandboxUnavailable."""
        async with self._lock:
            began = time.perf_counter()
            self._stop_guard()
            restarted, self._lost = self._lost, ""
            start_s = 0.0
            if self._running is None:
                opened = open_ready(self.level, self._identity, self.limits, child.serve_cells)
                self._running, self._held = await opened
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
        """End the interpreter after a running cell; the next call's result has the reason."""
        async with self._lock:
            self._stop_guard()
            await self._lose(why)

    async def __aenter__(self) -> "SandboxSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run_cell(self, code: str) -> ProgramOutput:
        running = self._running
        assert running is not None, "opened by the caller"
        most_bytes = 4 * self.limits.output_chars + 4  # at most 4 bytes per character
        out, errors = StreamCapture(most_bytes), StreamCapture(most_bytes, keep_end=True)
        reading = asyncio.ensure_future(_exchange(running, code, out, errors))
        try:
            over = await overrun(reading, running.pid, self.limits, self.level)
        except asyncio.CancelledError:
            await running.ended(reading)
            raise
        if over is None and (status := reading.result()) is not None:
            return ProgramOutput(out.text(), errors.text(), status)
        await running.ended(reading)
        status, words = over or (await running.exit_status(self.level), "")
        await self._lose(words.strip() or _REASONS[status].format(self.limits.seconds))
        return ProgramOutput(out.text(), errors.text() + words, status)

    async def _watch_idle(self, pid: int) -> None:
        """Apply a cell's limits to the processes that it left running."""
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


async def _exchange(
    running: RunningProcess, code: str, out: StreamCapture, errors: StreamCapture
) -> Status | None:
    """Send a cell and read its output to the end; None if the interpreter ended first."""
    # The mark is unknown before the cell runs; a program that then finds it only ends its own cell
    # early.
    mark = b"\0" + secrets.token_hex(16).encode() + b"\0"
    source = code.encode("utf-8", "replace")

    async def send() -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the end of its streams shows it
            running.stdin.write(mark + b" %d\n" % len(source) + source)
            await running.stdin.drain()

    async def outcome() -> Status | None:
        if not await running.stderr.until(mark, errors):
            return None
        return _OUTCOMES.get(await running.stderr.exactly(1))

    _, printed, status = await asyncio.gather(send(), running.stdout.until(mark, out), outcome())
    return status if printed else None


class SandboxSessions:
    """Sessions by program id. A session that is idle too long, or the longest idle one at the
    limit, is closed; its program's next call opens another, whose result gives the reason."""

    def __init__(
        self,
        level: str,
        limits: SandboxLimits = DEFAULT_LIMITS,
        *,
        most: int = 16,
        idle_s: float = 300.0,
    ) -> None:
        """At most `most` interpreters at once, each closed after `idle_s` seconds without a
        cell."""
        assert most > 0, f"{most} sessions are none"
        self._level, self._limits = level, limits
        self._most, self._idle_s = most, idle_s
        self._sessions: dict[str, SandboxSession] = {}  # longest idle first
        self._calls: dict[str, int] = {}
        self._holding: set[str] = set()  # programs with an interpreter, or about to get one
        self._room = asyncio.Condition()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        SandboxSession(level, limits)  # fail early if the level does not work

    @property
    def held(self) -> int:
        return len(self._holding)

    async def run(self, program: str, code: str) -> SandboxResult:
        """Run a cell in the program's session; waits if all permitted sessions are busy."""
        session = self._sessions.pop(program, None) or SandboxSession(self._level, self._limits)
        self._sessions[program] = session  # now the last to be closed
        self._calls[program] = self._calls.get(program, 0) + 1
        self._stop_timer(program)
        try:
            await self._take_room(program)
            return await session.run(code)
        finally:
            await asyncio.shield(self._done(program, session))

    async def close(self, program: str) -> None:
        self._stop_timer(program)
        session = self._sessions.pop(program, None)
        if session is not None:
            async with self._room:
                await self._end(program, session, "")

    async def close_all(self) -> None:
        for program in list(self._sessions):
            await self.close(program)
        if self._closing:
            await asyncio.wait(self._closing)

    async def __aenter__(self) -> "SandboxSessions":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close_all()

    async def _take_room(self, program: str) -> None:
        async with self._room:
            while program not in self._holding and len(self._holding) >= self._most:
                idle = [name for name in self._sessions if name in self._holding]
                idle = [name for name in idle if not self._calls.get(name)]
                if idle:
                    await self._end(idle[0], self._sessions[idle[0]], "it made room for others")
                else:
                    await self._room.wait()
            self._holding.add(program)

    async def _done(self, program: str, session: SandboxSession) -> None:
        self._calls[program] -= 1
        if self._calls[program]:
            return
        del self._calls[program]
        async with self._room:
            if not session.alive:
                self._holding.discard(program)
            self._room.notify_all()
        if self._sessions.get(program) is session and not self._calls.get(program):
            loop = asyncio.get_running_loop()
            self._timers[program] = loop.call_later(self._idle_s, self._time_out, program)

    async def _end(self, program: str, session: SandboxSession, why: str) -> None:
        """Close one session; the caller holds `_room`."""
        try:
            await session.close(why)
        finally:
            self._holding.discard(program)
            self._room.notify_all()

    def _stop_timer(self, program: str) -> None:
        if timer := self._timers.pop(program, None):
            timer.cancel()

    def _time_out(self, program: str) -> None:
        task = asyncio.create_task(self._close_idle(program))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_idle(self, program: str) -> None:
        async with self._room:
            session = self._sessions.get(program)
            if session is not None and not self._calls.get(program):
                await self._end(program, session, f"idle for {self._idle_s:g} s")
