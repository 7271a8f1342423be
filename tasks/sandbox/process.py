"""The parent's side of a sandboxed process: start, read within limits, end its whole group."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from tutti.tasks.sandbox.values import SandboxLimits, SandboxUnavailable, Status
from tutti.tasks.sandbox.walls import READY, Enter, prepared
from tutti.tasks.sandbox.watch import WATCH

# a program that prints this much never stops; reading on would block our event loop
_FLOOD_BYTES = 16 * 2**20
_REAP_S = 5.0  # a killed process is gone in milliseconds; an overloaded host gets longer
_MAX_SIGNAL = 64  # a launcher reports a program killed by signal n as 128 + n


class Pipe:
    """One output stream of a program, read in pieces that end with markers."""

    def __init__(self, stream: asyncio.StreamReader, on_flood: Callable[[], None]) -> None:
        self._stream, self._on_flood = stream, on_flood
        self._ahead = b""  # read, but after the last marker

    async def until(self, marker: bytes | None, kept: "StreamCapture") -> bool:
        """Read into `kept` until the marker (True) or the end of the stream (False)."""
        held, seen = self._ahead, 0
        self._ahead = b""
        while True:
            at = held.find(marker) if marker else -1
            if marker and at >= 0:
                kept.add(held[:at])
                self._ahead = held[at + len(marker) :]
                return True
            sure = max(0, len(held) - len(marker) + 1) if marker else len(held)
            kept.add(held[:sure])
            chunk = await self._stream.read(2**16)
            if not chunk:
                kept.add(held[sure:])
                return False
            held = held[sure:] + chunk
            seen += len(chunk)
            if seen > _FLOOD_BYTES:
                self._on_flood()

    async def exactly(self, count: int) -> bytes:
        """Read exactly `count` bytes; fewer at the end of the stream."""
        pieces, size = [self._ahead], len(self._ahead)
        while size < count and (chunk := await self._stream.read(2**16)):
            pieces.append(chunk)
            size += len(chunk)
        whole = b"".join(pieces)
        self._ahead = whole[count:]
        return whole[:count]


class StreamCapture:
    """The first bytes of a stream, or the last, up to a limit."""

    def __init__(self, most_bytes: int, keep_end: bool = False) -> None:
        self._most, self._keep_end = most_bytes, keep_end
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data
        excess = max(0, len(self._data) - self._most)
        del self._data[slice(excess) if self._keep_end else slice(self._most, None)]

    def text(self) -> str:
        """The captured bytes as text; bytes that are not UTF-8 are escaped."""
        return self._data.decode("utf-8", "replace")


class RunningProcess:
    """A started launcher and the two streams of its program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None and process.stderr is not None, "both were piped"
        self._process = process
        self._gone = False
        self.stdout = Pipe(process.stdout, self.kill)
        self.stderr = Pipe(process.stderr, self.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None, "only sessions have one"
        return self._process.stdin

    def kill(self) -> None:
        """Kill the launcher's group, and with it its whole process namespace."""
        if not self._gone:  # otherwise the number may belong to another process by now
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def ended(self, reading: "asyncio.Future[Any]") -> None:
        """Kill the rest and wait for `reading` of both streams. Raises SandboxUnavailable."""
        self.kill()
        waiting = asyncio.gather(reading, self._process.wait(), return_exceptions=True)
        await asyncio.wait({waiting}, timeout=_REAP_S)
        self._gone = waiting.done()
        waiting.cancel()
        if not self._gone:
            raise SandboxUnavailable(f"process {self.pid} did not end within {_REAP_S} s")

    async def discard(self) -> None:
        nothing = StreamCapture(0)
        both = asyncio.gather(self.stdout.until(None, nothing), self.stderr.until(None, nothing))
        await self.ended(both)

    async def exit_status(self, level: str) -> Status:
        code = await self._process.wait()
        killed = code < 0 or (level != "limits" and 128 < code <= 128 + _MAX_SIGNAL)
        return "ok" if code == 0 else "killed" if killed else "error"


async def start(command: list[str], options: dict[str, Any]) -> RunningProcess:
    """Start a launcher in its own process group. Raises SandboxUnavailable if it fails."""
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command, stdout=pipe, stderr=pipe, start_new_session=True, **options
        )
    )
    try:
        return RunningProcess(await asyncio.shield(starting))
    except asyncio.CancelledError:
        # If cancelled here, asyncio would kill only the launcher: this early, that orphans the
        # child that waits for it, and asyncio then waits for that child's pipes.
        with suppress(OSError):
            await RunningProcess(await starting).discard()
        raise
    except OSError as error:
        raise SandboxUnavailable(f"{command[0]} could not be started: {error}") from error


START_S = 10.0  # a start takes a twentieth of a second; a longer one has failed


async def overrun(
    reading: "asyncio.Future[Any]", pid: int, limits: SandboxLimits, level: str
) -> tuple[Status, str] | None:
    """Wait for `reading`; None if it finishes in time, else the run's status and the reason."""
    watching = asyncio.ensure_future(WATCH.trouble(pid, limits))
    waiting = {reading} if level == "limits" else {reading, watching}
    try:
        await asyncio.wait(waiting, timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
    if reading.done():
        return None
    if level != "limits" and watching.done():
        return "killed", f"killed: {watching.result()}\n"
    return "timeout", ""


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
