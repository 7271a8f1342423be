"""The cells that were run: one line of JSON each, so that an interrupted bench goes on.

In: `Record`s as they come. Out: ``cells.jsonl``; a line that was cut in two when the bench was
killed is left out, and its cell runs again.
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
    """All that is known of a cell."""

    spec: CellSpec
    measures: dict[str, float]
    counted: dict[str, float]
    """By the engine itself, from the cell's first call to its end."""
    cut: bool = False
    began_at: str = ""
    load_1m: float = 0.0
    """Of the machine, before the cell."""
    columns: tuple[str, ...] = ()
    steps: list[list[float]] = field(default_factory=list)
    programs: list[list[float | None]] = field(default_factory=list)
    """When each was taken up, and when it was over."""
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
                self._append(b"")  # what was cut in two must not spoil the next line

    def _read(self, line: bytes) -> None:
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError:
            return  # cut in two; its cell runs again
        record = Record(**fields | {"spec": CellSpec(**fields["spec"])})
        self._found[record.spec.key] = record

    def __contains__(self, spec: CellSpec) -> bool:
        return spec.key in self._found

    def __iter__(self) -> Iterator[Record]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def add(self, record: Record) -> None:
        """Write it down, for good."""
        fields: dict[str, Any] = asdict(record)
        self._append(orjson.dumps(fields))
        self._found[record.spec.key] = record

    def _append(self, line: bytes) -> None:
        with self.path.open("ab") as out:
            out.write(line + b"\n")
            out.flush()
            os.fsync(out.fileno())

    def like(self, spec: CellSpec) -> dict[str, dict[int, Record]]:
        """Arm to block to cell: those that differ from `spec` in nothing else."""
        found: dict[str, dict[int, Record]] = defaultdict(dict)
        for record in self:
            if replace(record.spec, arm=spec.arm, block=spec.block) == spec:
                found[record.spec.arm][record.spec.block] = record
        return dict(found)
