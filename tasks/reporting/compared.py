"""Two sweeps side by side: each point of one against the same point of the other.

In: a store's connection and two sweep ids. Out: `index.html` in a folder, and on request the
figures beside it. Points are matched by benchmark, model, policy and concurrency; what has one
value in each sweep (two models, say) is what is compared, and not matched.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.failures import Failure, Transcript, failures, transcripts
from tutti.tasks.reporting.figures import plots
from tutti.tasks.reporting.html import Figures, Section, Transcripts, write_page
from tutti.tasks.reporting.page import Report
from tutti.tasks.reporting.table import Columns, tabulate
from tutti.tasks.reporting.text import columns, words
from tutti.tasks.reporting.text.columns import COMPARED_NOTE
from tutti.tasks.reporting.text.numbers import at_once
from tutti.tasks.sweeps.analysis import Figure, Pair, compare_pairs, compare_rates, set_ups
from tutti.tasks.sweeps.results import CellSummary, cells_of, focus, in_order, load_points, rows
from tutti.tasks.sweeps.spec import stored_fields

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AXES = ("benchmark", "model", "policy", "concurrency")
A, B = "A", "B"
SAID = (Figure.SCORE, Figure.RATE)
Key = tuple[tuple[str, Any], ...]
"""A point's axes and values, of those that it is matched by."""
Differing = tuple[str, str, str]
"""A field of the suites, and what each says."""


@dataclass(frozen=True)
class SweepPair:
    """The ids of two sweeps to compare."""

    baseline: str
    judged: str
    """Judged against the baseline."""

    @property
    def ids(self) -> list[str]:
        """Both, the baseline first."""
        return [self.baseline, self.judged]


def build_comparison(
    connection: "DuckDBPyConnection",
    sweeps: SweepPair,
    out: Path,
    title: str,
    notes: Mapping[str, str],
    files: bool = True,
) -> Report:
    """Write the page that judges one sweep against another; otherwise as `build_report`.

    A point that only one of them has is named under what is missing. `Report.cells` are those of
    both, the baseline's first, their models named after the side.
    """
    named = {A: sweeps.baseline, B: sweeps.judged}
    with focus(connection, sweeps.ids) as focused:
        cells_a, cells_b = (in_order(cells_of(focused, each)) for each in sweeps.ids)
        failed = {
            side: [replace(found, side=side) for found in failures(focused, [each])]
            for side, each in named.items()
        }
        shown = _transcripts(focused, failed)
        specs = {side: _spec(focused, each) for side, each in named.items()}
        pairs, unmatched = match(cells_a, cells_b)
        cells = [*cells_a, *cells_b]
        compared = [*compare_pairs(focused, pairs), *compare_rates(pairs, cells)]
    labelled = [_labelled(cell, A) for cell in cells_a] + [_labelled(cell, B) for cell in cells_b]
    said = [
        *(_who(side, cells, specs) for side, cells in ((A, cells_a), (B, cells_b))),
        *words.tally(compared),
        *(
            f"{c.where}: {words.against(c)}"
            for c in compared
            if c.metric in (Figure.SCORE, Figure.RATE)
        ),
        *words.cell_findings(labelled),
    ]
    report = Report(
        out / "index.html",
        findings=said,
        gaps=[*unmatched, *words.gaps(labelled)],
        alarms=words.alarms(labelled),
        cells=labelled,
        policies=compared,
        failed=[*failed[A], *failed[B]],
        shown=shown,
    )
    called = {_called(side, specs): failed[side] for side in (A, B)}
    sections = _sections(report, _diff(specs[A], specs[B]), called)
    return write_page(report, title, {**notes, **named}, sections, files)


def _sections(
    report: Report, differing: Sequence[Differing], failed: Mapping[str, Sequence[Failure]]
) -> list[Section]:
    judged = columns.renamed(columns.COMPARISONS, {"was": A, "value": B})
    points = {name: judged[name] for name in POINTS}
    cells = report.cells
    return [
        Section(
            "Point by point",
            [
                tabulate(points, report.compared, missing=""),
                Figures(plots.load_plots(cells), beside=True),
            ],
            f"{CHANGE_NOTE} {COMPARED_NOTE}",
        ),
        Section(
            "The cells",
            [
                columns.of_cells(columns.outcome_of(cells), cells),
                columns.of_cells(columns.REACHED, cells, "Load asked and reached"),
                columns.of_cells(columns.ORIGIN, cells, "What they were"),
                tabulate(DIFFERS, differing, "How their suites differ"),
            ],
        ),
        Section(
            "What went wrong",
            [
                *(
                    replace(columns.failures(found, report.shown), title=side)
                    for side, found in failed.items()
                ),
                Transcripts(report.shown),
            ],
        ),
    ]


def match(
    cells_a: Sequence[CellSummary], cells_b: Sequence[CellSummary]
) -> tuple[list[Pair], list[str]]:
    """Points that both have, as pairs, and a sentence for each that one of them lacks."""
    a, b = (
        [vars(cell) for point in load_points(side) for cell in point.cells]
        for side in (cells_a, cells_b)
    )
    of_a, of_b = set_ups(a, b, comparable=AXES)
    names = _names([*of_a, *of_b])
    pairs = [
        Pair(names[key], A, tuple(of_a[key]), B, tuple(of_b[key])) for key in of_a if key in of_b
    ]
    unmatched = [
        f"only {side} has {names[key]}."
        for side, mine, other in ((A, of_a, of_b), (B, of_b, of_a))
        for key in mine
        if key not in other
    ]
    return pairs, unmatched


DIFFERS: Columns[Differing] = {
    "field": lambda row: row[0],
    "in A": lambda row: row[1],
    "in B": lambda row: row[2],
}


POINTS = ("where", "figure", "n", "left out", A, B, "change", "95 %", "p (Holm)", "verdict")
"""Of `COMPARISONS`, where all rows judge B against A."""
CHANGE_NOTE = "change: from A to B; the verdict is B's."


def _transcripts(
    focused: "DuckDBPyConnection", failed: Mapping[str, Sequence[Failure]]
) -> dict[str, Transcript]:
    """Those of both sides, each with its `side`."""
    every = [failure for side in failed for failure in failed[side]]
    sides = {example: failure.side for failure in every for example in failure.examples}
    return {
        key: replace(shown, attempt={**shown.attempt, "side": sides[key]})
        for key, shown in transcripts(focused, every).items()
    }


def _called(side: str, specs: Mapping[str, Mapping[str, Any]]) -> str:
    name = specs[side].get("name")
    return f"{side}: {name}" if name else side


def _who(side: str, cells: Sequence[CellSummary], specs: Mapping[str, Mapping[str, Any]]) -> str:
    """What a side's letter stands for: its sweep and the models of its cells."""
    models = ", ".join(sorted({cell.model for cell in cells})) or "unknown"
    return f"{_called(side, specs)} (model {models})."


def _names(keys: Sequence[Key]) -> dict[Key, str]:
    """Each point by what it differs from others in, and by its load."""
    values = Counter(axis for axis, _ in {pair for key in keys for pair in key})
    return {
        key: ", ".join(
            at_once(value) if axis == "concurrency" else str(value)
            for axis, value in key
            if axis == "concurrency" or values[axis] > 1
        )
        or "the one point"
        for key in keys
    }


def _labelled(cell: CellSummary, side: str) -> CellSummary:
    """The cell under its side's name, for tables and figures of both."""
    return replace(cell, model=f"{side} {cell.model}")


def _spec(focused: "DuckDBPyConnection", sweep_id: str) -> dict[str, Any]:
    found = rows(focused, "select name, spec from sweeps where sweep_id = $id", id=sweep_id)
    return {"sweep": sweep_id, **stored_fields(found[0]["spec"])} if found else {"sweep": sweep_id}


def _diff(spec_a: Mapping[str, Any], spec_b: Mapping[str, Any]) -> list[Differing]:
    """Fields of the suites with other values: (field, A's, B's)."""
    return [
        (name, _short(spec_a.get(name)), _short(spec_b.get(name)))
        for name in dict.fromkeys([*spec_a, *spec_b])
        if spec_a.get(name) != spec_b.get(name)
    ]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
