"""A journal of programs, so that a restarted gateway knows those of a killed one.

Each change is one line, written out a few times a second. A kill loses at most the last lines,
which the programs' next calls replace. A restored program that does not call again loses its place
like any other.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import orjson

from tutti.tasks.serving.scheduling import EngineState, Ledger, Program

FLUSH_S = 0.1
REWRITE_LINES = 50_000
REWRITE_FACTOR = 4


class ProgramState(NamedTuple):
    """The recorded state of a program."""

    engine: str | None
    context_tokens: int
    calls_done: int
    key: str = ""
    steps: int = 0


LivingPrograms = dict[tuple[str, str], ProgramState]


class Journal:
    """An append-only file of programs' states. Write failures are counted and never fail a call.
    Raises OSError only when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        self._lines: list[bytes] = []
        self._taken: list[bytes] = []
        """Lines that are being written, or will be."""
        self._writing = threading.Lock()
        lines = list(_lines(path))
        self._living = {name: line.rstrip(b"\n") for name, (_, line) in _states(lines).items()}
        """The last line of each program that has not ended."""
        self._written = len(lines)
        self._is_cut = bool(lines) and not lines[-1].endswith(b"\n")
        """Whether a kill or a full disk cut off the last line, which must not spoil the next."""
        self.failures = 0

    def note(self, pool: str, program: Program) -> None:
        engine = program.engine.engine_id if program.engine else None
        known = (engine, program.context_tokens, program.calls_done, program.key, program.steps)
        line = orjson.dumps([pool, program.program_id, *known])
        self._lines.append(line)
        self._living[pool, program.program_id] = line

    def forget(self, pool: str, program_id: str) -> None:
        self._lines.append(orjson.dumps([pool, program_id]))
        self._living.pop((pool, program_id), None)

    def take(self) -> list[bytes]:
        """Return and clear the unwritten lines; pass them to `write`, on a thread that may wait for
        a disk."""
        self._taken, self._lines = self._lines, []
        self._written += len(self._taken)
        return self._taken

    def write(self, lines: list[bytes]) -> None:
        """Write the lines taken, unless `close` has."""
        with self._writing:
            if lines is self._taken:
                self._append(lines)
                self._taken = []

    def _append(self, lines: list[bytes]) -> None:
        data = b"\n" * self._is_cut + b"\n".join(lines) + b"\n"
        try:
            written = os.write(self._file, data)
        except OSError:
            self.failures += 1
        else:
            self._is_cut = written < len(data)
            self.failures += self._is_cut

    async def shorten(self, ledgers: Mapping[str, Ledger]) -> None:
        """Keep one line for each living program, if the file has grown far beyond that."""
        if self._written < REWRITE_LINES:
            return
        if self._written >= REWRITE_FACTOR * sum(len(each.programs) for each in ledgers.values()):
            programs = {pool: ledger.programs for pool, ledger in ledgers.items()}
            self._living = {
                (pool, name): line
                for (pool, name), line in self._living.items()
                if name in programs.get(pool, ())
            }
            await asyncio.to_thread(self._rewrite, list(self._living.values()))

    def _rewrite(self, kept: list[bytes]) -> None:
        with self._writing:
            if self._file < 0:
                return
            fresh = self.path.with_suffix(".new")
            try:
                fresh.touch(0o600)
                fresh.write_bytes(b"".join(line + b"\n" for line in kept))
                os.replace(fresh, self.path)
                descriptor = os.open(self.path, os.O_APPEND | os.O_WRONLY)
            except OSError:
                self.failures += 1
                self._written = 0
                return
            os.close(self._file)
            self._file, self._written, self._is_cut = descriptor, len(kept), False

    def close(self) -> None:
        """Write pending lines and close. Lines taken before by a thread that was too late come
        first, because an older line must not restore a program after its end."""
        with self._writing:
            if self._file < 0:
                return
            if pending := [*self._taken, *self._lines]:
                self._append(pending)
            self._taken, self._lines = [], []
            os.close(self._file)
            self._file = -1


def read_journal(path: Path) -> LivingPrograms:
    return {name: state for name, (state, _) in _states(_lines(path)).items()}


def _states(lines: Iterable[bytes]) -> dict[tuple[str, str], tuple[ProgramState, bytes]]:
    """Return the last state of each program that has not ended, and its line."""
    living: dict[tuple[str, str], tuple[ProgramState, bytes]] = {}
    for line in lines:
        # The last line of a killed process may be incomplete; so may any before a full disk.
        with contextlib.suppress(orjson.JSONDecodeError, ValueError, TypeError):
            pool, name, *state = orjson.loads(line)
            if state:
                engine, context, calls, key, steps = state
                known = ProgramState(engine, int(context), int(calls), str(key), int(steps))
                living[pool, name] = known, line
            else:
                living.pop((pool, name), None)
    return living


def restore(
    living: LivingPrograms, pool: str, ledger: Ledger, engines: dict[str, EngineState], now: float
) -> None:
    """Restore the programs of `pool`, once: they are removed from `living`."""
    for its_pool, name in [each for each in living if each[0] == pool]:
        engine, context, calls, key, steps = living.pop((its_pool, name))
        if name not in ledger.programs:
            program = Program(name, now, engines.get(engine or ""), context, calls, steps, key=key)
            ledger.programs[name] = program
            ledger.rest(program, now)


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        with path.open("rb") as file:
            yield from file
