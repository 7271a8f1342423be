"""Many sessions, one per program: opened on the program's first cell, with an upper bound.

async with SandboxSessions(level_for_models()) as sessions:
    await sessions.run("program-1", "x = 6")
    result = await sessions.run("program-1", "x * 7")  # output "42\n"
"""

import asyncio
from types import TracebackType

from tutti.tasks.sandbox.session import SandboxSession
from tutti.tasks.sandbox.values import DEFAULT_LIMITS, SandboxLimits, SandboxResult


class SandboxSessions:
    """Sessions by program id. A session that is idle too long, or the longest idle when the limit
    is reached, is closed; its program's next call opens another, whose result gives the reason."""

    def __init__(
        self,
        level: str,
        limits: SandboxLimits = DEFAULT_LIMITS,
        *,
        most: int = 16,
        idle_s: float = 300.0,
    ) -> None:
        """At most `most` interpreters at once, each closed after `idle_s` seconds without a cell.

        Raises SandboxUnavailable if the level does not work.
        """
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
        """Number of interpreters that exist or are about to."""
        return len(self._holding)

    async def run(self, program: str, code: str) -> SandboxResult:
        """Run a cell in the program's session; waits if all permitted sessions are busy.

        Raises SandboxUnavailable like `SandboxSession.run`.
        """
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
        """End a program's session, if it has one."""
        self._stop_timer(program)
        session = self._sessions.pop(program, None)
        if session is not None:
            async with self._room:
                await self._end(program, session, "")

    async def close_all(self) -> None:
        """End every session."""
        for program in list(self._sessions):
            await self.close(program)
        if self._closing:
            await asyncio.wait(self._closing)

    async def __aenter__(self) -> "SandboxSessions":
        """The sessions themselves; none is open yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Close all."""
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
        """Close one session; the caller holds the semaphore."""
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
