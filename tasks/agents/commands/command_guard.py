"""Ends the programs of harness commands when their owner is gone, also by kill -9.

One process per cell, ``python -I command_guard.py``, reads lines ``+PID`` and ``-PID`` from a pipe.
When the pipe closes, it kills every process group that has not ended. Standard library only.
"""

import contextlib
import os
import signal
import subprocess
import sys

ENDING_S = 5.0


class CommandGuard:
    """The guard of one owner, as a context manager for one thread."""

    def __init__(self) -> None:
        # A session of its own: Ctrl-C in the owner's terminal must not end it before the groups.
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> "CommandGuard":
        return self

    def __exit__(self, *_: object) -> None:
        pipe = self._process.stdin
        assert pipe is not None, "it was asked for"
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        try:
            self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def started(self, group: int) -> None:
        """A process group that must not outlive the owner. Raises OSError if the guard is gone."""
        self._tell(f"+{group}")

    def ended(self, group: int) -> None:
        """Remove a group whose processes were ended, because its number may be reused."""
        with contextlib.suppress(BrokenPipeError):  # nothing is left to guard
            self._tell(f"-{group}")

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None, "it was asked for"
        pipe.write(line.encode() + b"\n")
        pipe.flush()


def main() -> None:
    """Read until the owner is gone, then kill its remaining groups."""
    groups: set[int] = set()
    for line in sys.stdin:
        change, number = line[0], int(line[1:])
        (groups.add if change == "+" else groups.discard)(number)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
