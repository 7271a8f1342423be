"""Programs on record, so that a gateway that was killed knows them again.

One line a change, appended as it happens and written out a few times a second: what a kill costs
is at most the last lines, which the programs' next calls bring back. Nothing is booked from it
for ever: a program that does not come back loses its place like any other.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from tutti.tasks.serving.scheduling import EngineState, Ledger, Program

FLUSH_S = 0.1
REWRITE_LINES = 50_000
REWRITE_FACTOR = 4


class ProgramState(NamedTuple):
    """A program on record."""

    engine: str | None
    context_tokens: int
    calls_done: int
    key: str = ""


LivingPrograms = dict[tuple[str, str], ProgramState]
"""By pool and program."""


class Journal:
    """An append-only file of programs' states. Failures to write are counted, and never a call's.

    Raises OSError only when it is opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        self._lines: list[bytes] = []
        lines = list(_lines(path))
        self._written = len(lines)
        if lines and not lines[-1].endswith(b"\n"):
            os.write(self._file, b"\n")  # what a kill cut must not spoil the next line too
        self.failures = 0

    def note(self, pool: str, program: Program) -> None:
        """A program's call has ended."""
        engine = program.engine.engine_id if program.engine else None
        known = (engine, program.context_tokens, program.calls_done, program.key)
        self._lines.append(orjson.dumps([pool, program.program_id, *known]))

    def forget(self, pool: str, program_id: str) -> None:
        """A program is over."""
        self._lines.append(orjson.dumps([pool, program_id]))

    def take(self) -> list[bytes]:
        """What was noted and is not written; for `write`, on a thread that may wait for a disk."""
        lines, self._lines = self._lines, []
        self._written += len(lines)
        return lines

    def write(self, lines: list[bytes]) -> None:
        """Write what was taken."""
        try:
            os.write(self._file, b"\n".join(lines) + b"\n")
        except OSError:
            self.failures += 1

    def flush(self) -> None:
        """Write what was noted."""
        if lines := self.take():
            self.write(lines)

    def rewrite(self, ledgers: dict[str, Ledger]) -> None:
        """Keep one line a living program, when the file has grown far beyond that."""
        alive = sum(len(ledger.programs) for ledger in ledgers.values())
        if self._written < max(REWRITE_LINES, REWRITE_FACTOR * alive):
            return
        self._lines = []
        for pool, ledger in ledgers.items():
            for program in ledger.programs.values():
                self.note(pool, program)
        fresh = self.path.with_suffix(".new")
        try:
            fresh.touch(0o600)
            fresh.write_bytes(b"".join(line + b"\n" for line in self._lines))
            os.replace(fresh, self.path)
            descriptor = os.open(self.path, os.O_APPEND | os.O_WRONLY)
        except OSError:
            self.failures += 1
            self._written = 0
            return
        os.close(self._file)
        self._file, self._written, self._lines = descriptor, alive, []

    def close(self) -> None:
        """Write what is left and close."""
        self.flush()
        os.close(self._file)


def read_journal(path: Path) -> LivingPrograms:
    """Programs that are not over."""
    living: LivingPrograms = {}
    for line in _lines(path):
        # The last line of a killed process may be half a line; so may any before a full disk.
        with contextlib.suppress(orjson.JSONDecodeError, ValueError, TypeError):
            pool, name, *state = orjson.loads(line)
            if state:
                engine, context, calls, *key = state
                living[pool, name] = ProgramState(
                    engine, int(context), int(calls), *map(str, key[:1])
                )
            else:
                living.pop((pool, name), None)
    return living


def restore(
    living: LivingPrograms, pool: str, ledger: Ledger, engines: dict[str, EngineState], now: float
) -> None:
    """Enter the programs of `pool` that are on record, once: they are taken out of `living`."""
    for its_pool, name in [each for each in living if each[0] == pool]:
        engine, context, calls, key = living.pop((its_pool, name))
        if name not in ledger.programs:
            program = Program(name, now, engines.get(engine or ""), context, calls, key=key)
            ledger.programs[name] = program
            ledger.rest(program, now)


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        with path.open("rb") as file:
            yield from file
