"""Runs one program, its source in, its output and exit status out; or two programs in a dialogue.

In a dialogue neither program sees the other's memory, files or processes. The asker sends ``b"?" +
question`` by `send` and gets an answer by `receive`, as often as it likes, then sends ``b"!" +
word``; the answerer receives questions and sends answers.
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
SIDES: tuple[Side, Side] = ("asker", "answerer")


@dataclass(frozen=True)
class TalkResult:
    """The outcome of a dialogue."""

    word: bytes | None  # the asker's final message; None if there was none
    status: Status  # "ok" with a final message; else the status of the side that ended first
    errors: str  # the end of that side's standard error; after a timeout, why
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
        try:
            self.running.stdin.write(b"%d\n%b" % (len(data), data))
            await self.running.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _SideEnded(self.side) from None

    async def receive(self) -> bytes:
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

    async def close(self) -> None:
        try:
            nothing = StreamCapture(0)
            rest = asyncio.ensure_future(self.running.stdout.until(None, nothing))
            await self.running.ended(asyncio.gather(self.reading, rest))
        finally:
            self._held.close()


async def _status_of(speaker: _Speaker, level: str) -> Status:
    try:
        async with asyncio.timeout(END_S):
            status = await speaker.running.exit_status(level)
            await asyncio.wait({speaker.reading})
            return status
    except TimeoutError:
        return "killed"


async def _relay(asks: _Speaker, answers: _Speaker, asker: str, answerer: str) -> bytes | Side:
    try:
        await asks.send(asker.encode("utf-8", "replace"))
        await answers.send(answerer.encode("utf-8", "replace"))
        while True:
            message = await asks.receive()
            if message.startswith(LAST_WORD):
                return message[1:]
            if not message.startswith(QUESTION):
                return "asker"
            await answers.send(message[1:])
            await asks.send(await answers.receive())
    except _SideEnded as ended:
        return ended.side


class Sandbox:
    """Runs programs at one level; any number concurrently."""

    def __init__(self, level: str, limits: SandboxLimits = DEFAULT_LIMITS) -> None:
        """Probe the level (once per process). Raises SandboxUnavailable if it does not work."""
        self._identity = checked_identity(level)
        self.level = level
        self.limits = limits

    async def run(self, code: str, limits: SandboxLimits | None = None) -> SandboxResult:
        """Run `code` to its end or its limits; no process outlives the call. Raises
        SandboxUnavailable."""
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
        """Connect two programs, each in its own sandbox, until the asker's final message, an end,
        or the limits of one side; no process outlives the call. Raises SandboxUnavailable."""
        limits = limits or self.limits
        async with AsyncExitStack() as stack:
            opening = [
                open_ready(self.level, self._identity, limits, child.converse) for _ in SIDES
            ]
            opened = await asyncio.gather(*opening, return_exceptions=True)
            speakers, failures = [], []
            for side, one in zip(SIDES, opened, strict=True):
                if isinstance(one, BaseException):
                    failures.append(one)
                else:
                    speaker = _Speaker(side, *one, limits.output_chars)
                    stack.push_async_callback(speaker.close)
                    speakers.append(speaker)
            if failures:
                raise failures[0]
            began = time.perf_counter()
            asks, answers = speakers
            relaying = asyncio.ensure_future(_relay(asks, answers, asker, answerer))
            try:
                over = await overrun(relaying, answers.running.pid, limits, self.level)
            finally:
                relaying.cancel()
            seconds = time.perf_counter() - began
            if over is not None:
                await asyncio.gather(relaying, return_exceptions=True)
                return TalkResult(None, over[0], over[1], seconds)
            word = relaying.result()
            if isinstance(word, bytes):
                return TalkResult(word, "ok", "", seconds)
            by = asks if word == "asker" else answers
            return TalkResult(None, await _status_of(by, self.level), by.errors.text(), seconds)


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
        await asyncio.gather(
            self.running.stdout.until(None, self.out),
            self._errors(),
            self.running.exit_status("limits"),
        )

    async def started(self) -> bool:
        """Wait for the program's first statement; False if the launcher fails or is too slow."""
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
