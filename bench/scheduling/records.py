"""The records of finished cells: one line of JSON each, so that an interrupted bench can resume.

In: `Record`s. Out: ``cells.jsonl``; a line that was cut off when the bench was killed is ignored,
and its cell runs again.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from bench.scheduling.plan import CellSpec

FILE = "cells.jsonl"


@dataclass(frozen=True)
class Record:
    """The record of one cell."""

    spec: CellSpec
    measures: dict[str, float]
    counted: dict[str, float]
    """The engine's own counters, from the cell's first call to its end."""
    cut: bool = False
    began_at: str = ""
    load_1m: float = 0.0
    """The machine's load before the cell."""
    columns: tuple[str, ...] = ()
    steps: list[list[float]] = field(default_factory=list)
    programs: list[list[float | None]] = field(default_factory=list)
    """Start and end of each program."""
    held: list[list[float]] = field(default_factory=list)
    """(seconds, calls held, calls in flight), a few times a second."""


class Records:
    """The cells of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._found: dict[str, Record] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.is_file():
            text = self.path.read_bytes()
            for line in text.splitlines():
                self._read(line)
            if text[-1:] not in (b"", b"\n"):
                self._append(b"")  # a cut-off line must not spoil the next one

    def _read(self, line: bytes) -> None:
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError:
            return  # cut off; its cell runs again
        record = Record(**fields | {"spec": CellSpec(**fields["spec"])})
        self._found[record.spec.key] = record

    def __contains__(self, spec: CellSpec) -> bool:
        return spec.key in self._found

    def __iter__(self) -> Iterator[Record]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def add(self, record: Record) -> None:
        """Append a record durably."""
        fields: dict[str, Any] = asdict(record)
        self._append(orjson.dumps(fields))
        self._found[record.spec.key] = record

    def _append(self, line: bytes) -> None:
        with self.path.open("ab") as out:
            out.write(line + b"\n")
            out.flush()
            os.fsync(out.fileno())

    def like(self, spec: CellSpec) -> dict[str, dict[int, Record]]:
        """Maps arm and block to the cells that differ from `spec` only in these."""
        found: dict[str, dict[int, Record]] = defaultdict(dict)
        for record in self:
            if replace(record.spec, arm=spec.arm, block=spec.block) == spec:
                found[record.spec.arm][record.spec.block] = record
        return dict(found)
