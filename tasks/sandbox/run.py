"""Runs one program, its source in, its output and exit status out; or two programs in a dialogue.

    talk = await Sandbox(level_for_models()).talk(asker, answerer)
    talk.word  # the asker's final message, as bytes

In a dialogue neither program sees the other's memory, files or processes. They exchange only byte
messages, by `send` and `receive`. The asker sends ``b"?" + question`` and receives an answer, as
often as it likes, then sends ``b"!" + word``; the answerer receives questions and sends answers.
Their printed output is discarded.
"""

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from typing import Literal

from tutti.tasks.sandbox import child
from tutti.tasks.sandbox.process import (
    START_S,
    RunningProcess,
    StreamCapture,
    open_ready,
    overrun,
    start,
)
from tutti.tasks.sandbox.values import (
    DEFAULT_LIMITS,
    ProgramOutput,
    SandboxLimits,
    SandboxResult,
    SandboxUnavailable,
    Status,
    make_result,
)
from tutti.tasks.sandbox.walls import READY, checked_identity, prepared

MAX_MESSAGE_BYTES = 4 * 2**20
QUESTION, LAST_WORD = b"?", b"!"
HEADER_BYTES = 24
END_S = 1.0  # time for a process whose streams have ended to exit
Side = Literal["asker", "answerer"]


@dataclass(frozen=True)
class TalkResult:
    """The outcome of a dialogue."""

    word: bytes | None
    """The asker's final message; None if there was none."""
    status: Status
    """"ok" with a final message; else the status of the side that ended first."""
    errors: str
    """The end of that side's standard error; after a timeout, why."""
    seconds: float


class _SideEnded(Exception):
    """A side ended, or sent an invalid message."""

    def __init__(self, side: Side) -> None:
        super().__init__(side)
        self.side = side


class _Speaker:
    """One side's process."""

    def __init__(
        self, side: Side, running: RunningProcess, held: ExitStack, most_chars: int
    ) -> None:
        self.side, self.running = side, running
        self._held = held
        self.errors = StreamCapture(4 * most_chars, keep_end=True)
        self.reading = asyncio.ensure_future(running.stderr.until(None, self.errors))

    async def send(self, data: bytes) -> None:
        """Send one message to the process."""
        try:
            self.running.stdin.write(b"%d\n%b" % (len(data), data))
            await self.running.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _SideEnded(self.side) from None

    async def receive(self) -> bytes:
        """Its next message. Raises _Ended."""
        header = StreamCapture(HEADER_BYTES)
        found = await self.running.stdout.until(b"\n", header)
        text = header.text()
        if not found or not (text.isascii() and text.isdecimal()):
            raise _SideEnded(self.side)
        size = int(text)
        data = await self.running.stdout.exactly(size) if size <= MAX_MESSAGE_BYTES else b""
        if len(data) < size:
            raise _SideEnded(self.side)
        return data

    async def __aenter__(self) -> "_Speaker":
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            nothing = StreamCapture(0)
            rest = asyncio.ensure_future(self.running.stdout.until(None, nothing))
            await self.running.ended(asyncio.gather(self.reading, rest))
        finally:
            self._held.close()


async def talk(
    level: str, identity: str, limits: SandboxLimits, asker: str, answerer: str
) -> TalkResult:
    """Connect two programs until the asker's final message, an end, or the limits; no process
    outlives the call. `limits` apply to each side; their time starts when both are running.

    Raises SandboxUnavailable if one could not be started or stopped.
    """
    async with AsyncExitStack() as stack:
        opening = [_open(side, level, identity, limits) for side in ("asker", "answerer")]
        opened = await asyncio.gather(*opening, return_exceptions=True)
        speakers = [
            await stack.enter_async_context(one) for one in opened if isinstance(one, _Speaker)
        ]
        for one in opened:
            if isinstance(one, BaseException):
                raise one
        began = time.perf_counter()
        asks, answers = speakers
        relaying = asyncio.ensure_future(_relay(asks, answers, asker, answerer))
        try:
            over = await overrun(relaying, answers.running.pid, limits, level)
        finally:
            relaying.cancel()
        seconds = time.perf_counter() - began
        if over is not None:
            await asyncio.gather(relaying, return_exceptions=True)
            return TalkResult(None, over[0], over[1], seconds)
        said = relaying.result()
        if isinstance(said, bytes):
            return TalkResult(said, "ok", "", seconds)
        by = asks if said == "asker" else answers
        return TalkResult(None, await _status_of(by, level), by.errors.text(), seconds)


async def _open(side: Side, level: str, identity: str, limits: SandboxLimits) -> _Speaker:
    running, held = await open_ready(level, identity, limits, child.converse)
    return _Speaker(side, running, held, limits.output_chars)


async def _status_of(speaker: _Speaker, level: str) -> Status:
    """The status of a side that ended, or that is ended for an invalid message."""
    try:
        async with asyncio.timeout(END_S):
            status = await speaker.running.exit_status(level)
            await asyncio.wait({speaker.reading})
            return status
    except TimeoutError:
        return "killed"


async def _relay(asks: _Speaker, answers: _Speaker, asker: str, answerer: str) -> bytes | Side:
    """The asker's final message, or the side that ended before it."""
    try:
        await asks.send(asker.encode("utf-8", "replace"))
        await answers.send(answerer.encode("utf-8", "replace"))
        while True:
            said = await asks.receive()
            if said.startswith(LAST_WORD):
                return said[1:]
            if not said.startswith(QUESTION):
                return "asker"
            await answers.send(said[1:])
            await asks.send(await answers.receive())
    except _SideEnded as ended:
        return ended.side


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
