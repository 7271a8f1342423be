"""The parent's side of a sandboxed process: start it, read it within limits, end all it started."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tutti.tasks.sandbox.values import SandboxUnavailable, Status

_FLOOD_BYTES = 16 * 2**20  # who prints this much prints for ever; reading it all costs our loop
_REAP_S = 5.0  # a killed process is gone in milliseconds; a host in trouble gets longer
_MAX_SIGNAL = 64  # a launcher reports a program killed by signal n as 128 + n


class Pipe:
    """One stream of a program, read in pieces that markers end."""

    def __init__(self, stream: asyncio.StreamReader, on_flood: Callable[[], None]) -> None:
        self._stream, self._on_flood = stream, on_flood
        self._ahead = b""  # read, but beyond the last marker

    async def until(self, marker: bytes | None, kept: "StreamCapture") -> bool:
        """Read into `kept` until the marker (true) or the end of the stream (false)."""
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
        """The next few bytes; fewer at the end of the stream."""
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
        """Keep as much of `data` as fits."""
        self._data += data
        excess = max(0, len(self._data) - self._most)
        del self._data[slice(excess) if self._keep_end else slice(self._most, None)]

    def text(self) -> str:
        """As text; what is not UTF-8 is shown as such."""
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
        """The launcher's process id."""
        return self._process.pid

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Where a session's cells go."""
        assert self._process.stdin is not None, "only sessions have one"
        return self._process.stdin

    def kill(self) -> None:
        """End the launcher's group. Its death takes its whole process namespace along."""
        if not self._gone:  # else the number may be another's by now
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def ended(self, reading: "asyncio.Future[Any]") -> None:
        """Kill what is left, also after a good end: the program may have left others in its group.

        `reading` takes the rest of both streams. Raises SandboxUnavailable when it does not end.
        """
        self.kill()
        waiting = asyncio.gather(reading, self._process.wait(), return_exceptions=True)
        await asyncio.wait({waiting}, timeout=_REAP_S)
        self._gone = waiting.done()
        waiting.cancel()
        if not self._gone:
            raise SandboxUnavailable(f"process {self.pid} did not end within {_REAP_S} s")

    async def discard(self) -> None:
        """End it; what it still had to say is lost."""
        nothing = StreamCapture(0)
        both = asyncio.gather(self.stdout.until(None, nothing), self.stderr.until(None, nothing))
        await self.ended(both)

    async def exit_status(self, level: str) -> Status:
        """How it ended; waits until it has."""
        return _status(await self._process.wait(), level)


async def start(command: list[str], options: dict[str, Any]) -> RunningProcess:
    """Start a launcher in a group of its own. Raises SandboxUnavailable when it cannot be."""
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command, stdout=pipe, stderr=pipe, start_new_session=True, **options
        )
    )
    try:
        return RunningProcess(await asyncio.shield(starting))
    except asyncio.CancelledError:
        # Cancelled itself, asyncio would kill the launcher alone: this early, that orphans the
        # child which waits for it, and asyncio then waits for that child's pipes.
        with suppress(OSError):
            await RunningProcess(await starting).discard()
        raise
    except OSError as error:
        raise SandboxUnavailable(f"{command[0]} could not be started: {error}") from error


def _status(returncode: int, level: str) -> Status:
    if returncode == 0:
        return "ok"
    launched = level != "limits"
    killed = returncode < 0 or (launched and 128 < returncode <= 128 + _MAX_SIGNAL)
    return "killed" if killed else "error"
