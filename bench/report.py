"""The output of every bench: a table for people, then one line of JSON for programs.

In: measured values, one per repeat. Out: medians with the lowest and highest value, and the target
if there is one; the last line is ``{"bench": …, "figures": …, "peers": …, "repeats": n,
"machine": …}``. A peer that is not available is left out.
"""

import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from tutti.tasks.platform.progress.runs import describe_machine


@dataclass(frozen=True)
class Target:
    """The target of a figure."""

    limit: float
    least: bool = False
    """The figure must be at least the limit, rather than at most."""

    def met(self, value: float) -> bool:
        """Whether `value` reaches it."""
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.least else '<='} {shown(self.limit)}"


@dataclass(frozen=True)
class MeasuredFigure:
    """A figure over the repeats."""

    values: tuple[float, ...]
    target: Target | None = None

    @property
    def median(self) -> float:
        """The median, which the JSON line contains."""
        return statistics.median(self.values)

    def cells(self) -> tuple[str, ...]:
        """The figure's row of the table, without its name."""
        words = ""
        if self.target is not None:
            words = f"{self.target} {'met' if self.target.met(self.median) else 'MISSED'}"
        spread = (self.median, min(self.values), max(self.values))
        return (*map(shown, spread), str(len(self.values)), words)


class Report:
    """Figures and peers of one run of a bench."""

    def __init__(self, bench: str, repeats: int) -> None:
        self.bench, self.repeats = bench, repeats
        # Other work on the machine makes every figure worse, so the load is shown.
        self.machine = describe_machine() | {"load_1m_at_start": round(os.getloadavg()[0], 2)}
        self._figures: dict[str, MeasuredFigure] = {}
        self._peers: dict[str, dict[str, MeasuredFigure]] = {}
        self._notes: list[str] = []

    def figure(self, name: str, values: Sequence[float], target: Target | None = None) -> None:
        """Add a figure of ours: its value in each repeat."""
        assert name not in self._figures, f"{name} is there already"
        self._figures[name] = MeasuredFigure(_checked(name, values), target)

    def peer(self, peer: str, name: str, values: Sequence[float]) -> None:
        """Add a figure of a peer, measured in the same run."""
        known = self._peers.setdefault(peer, {})
        assert name not in known, f"{peer} {name} is there already"
        known[name] = MeasuredFigure(_checked(name, values))

    def note(self, text: str) -> None:
        """Add a line under the table: the meaning of a figure, or what was not available."""
        self._notes.append(text)

    def table(self) -> list[str]:
        """The lines for people."""
        head = ("", "median", "lowest", "highest", "n", "target")
        rows = [(name, *found.cells()) for name, found in self._figures.items()]
        for peer, figures in self._peers.items():
            rows += [(f"{peer}: {name}", *found.cells()) for name, found in figures.items()]
        widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
        lines = ["  ".join(_aligned(row, widths)).rstrip() for row in [head, *rows]]
        return [f"bench {self.bench}, {self.repeats} repeats", *lines, *self._notes]

    def result(self) -> dict[str, Any]:
        """The object in the last line."""
        return {
            "bench": self.bench,
            "figures": {name: found.median for name, found in self._figures.items()},
            "peers": {
                peer: {name: found.median for name, found in figures.items()}
                for peer, figures in self._peers.items()
            },
            "repeats": self.repeats,
            "machine": self.machine,
        }

    def show(self) -> None:
        """Print the table and the JSON line."""
        print("\n".join(self.table()))
        print(json.dumps(self.result()), flush=True)


def seconds_of(work: Callable[[], object]) -> float:
    """Wall-clock seconds that `work` takes."""
    began = perf_counter()
    work()
    return perf_counter() - began


def shown(value: float) -> str:
    """A number with its significant digits."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _checked(name: str, values: Sequence[float]) -> tuple[float, ...]:
    assert values and all(map(math.isfinite, values)), f"{name}: {list(values)} is no figure"
    return tuple(map(float, values))


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    first, *middle, last = zip(row, widths, strict=True)
    return [
        first[0].ljust(first[1]),
        *(text.rjust(width) for text, width in middle),
        last[0].ljust(last[1]),
    ]
