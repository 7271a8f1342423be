"""Two sweeps side by side: each point of one against the same point of the other.

In: a store's connection and two sweep ids. Out: `index.html` in a folder, and on request the
figures beside it. Points are matched by benchmark, model, policy and concurrency; a field with a
single value in each sweep (two models, for example) is the compared one, and not matched.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.figures import plots
from tutti.tasks.reporting.figures.html import Figures, Section, Transcripts, write_page
from tutti.tasks.reporting.measures.failures import Failure, failures, transcripts
from tutti.tasks.reporting.measures.numbers import at_once
from tutti.tasks.reporting.measures.table import tabulate
from tutti.tasks.reporting.page import Report
from tutti.tasks.reporting.text import columns, words
from tutti.tasks.reporting.text.columns import COMPARED_NOTE
from tutti.tasks.sweeps import results
from tutti.tasks.sweeps.analysis import Figure, Pair, compare_pairs, compare_rates, set_ups

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AXES = ("benchmark", "model", "policy", "concurrency")
A, B = "A", "B"
Key = tuple[tuple[str, Any], ...]


def build_comparison(
    connection: "DuckDBPyConnection",
    sweeps: tuple[str, str],
    out: Path,
    title: str,
    notes: Mapping[str, str],
    files: bool = True,
) -> Report:
    """Write the page that judges the second sweep against the first; otherwise as `build_report`.

    A point that only one of them has is named under what is missing. `Report.cells` are those of
    both, the baseline's first, their models named after the side.
    """
    sides = dict(zip((A, B), sweeps, strict=True))
    with results.focus(connection, sweeps) as focused:
        measured = {
            side: results.in_order(results.cells_of(focused, each)) for side, each in sides.items()
        }
        failed = {
            side: [replace(each, side=side) for each in failures(focused, [sweep])]
            for side, sweep in sides.items()
        }
        every = [failure for own in failed.values() for failure in own]
        side_of = {example: each.side for each in every for example in each.examples}
        shown = {
            key: replace(each, attempt={**each.attempt, "side": side_of[key]})
            for key, each in transcripts(focused, every).items()
        }
        named = results.rows_by(focused, "sweep_id", "select sweep_id, name from sweeps")
        pairs, unmatched = match(measured[A], measured[B])
        cells = [*measured[A], *measured[B]]
        compared = [*compare_pairs(focused, pairs), *compare_rates(pairs, cells)]
    labelled = [
        replace(cell, model=f"{side} {cell.model}")
        for side, own in measured.items()
        for cell in own
    ]
    names = {side: [row["name"] for row in named.get(each, ())] for side, each in sides.items()}
    called = {side: ": ".join(filter(None, (side, *own))) for side, own in names.items()}
    models = {side: sorted({cell.model for cell in own}) for side, own in measured.items()}
    main = [c for c in compared if c.metric in (Figure.SCORE, Figure.RATE)]
    report = Report(
        out / "index.html",
        findings=[
            *(f"{called[s]} (model {', '.join(models[s]) or 'unknown'})." for s in sides),
            *words.tally(compared),
            *(f"{c.where}: {words.against(c)}" for c in main),
            *words.cell_findings(labelled),
        ],
        gaps=[*unmatched, *words.gaps(labelled)],
        alarms=words.alarms(labelled),
        cells=labelled,
        policies=compared,
        failed=every,
        shown=shown,
    )
    sections = _sections(report, {called[side]: own for side, own in failed.items()})
    return write_page(report, title, {**notes, **sides}, sections, files)


def _sections(report: Report, failed: Mapping[str, Sequence[Failure]]) -> list[Section]:
    judged = columns.renamed(columns.COMPARISONS, {"was": A, "value": B})
    points = tabulate({name: judged[name] for name in POINTS}, report.compared, missing="")
    cells = report.cells
    tables = [
        replace(columns.failures(own, report.shown), title=side) for side, own in failed.items()
    ]
    return [
        Section(
            "Point by point",
            [points, Figures(plots.load_plots(cells), beside=True)],
            f"{CHANGE_NOTE} {COMPARED_NOTE}",
        ),
        Section(
            "The cells",
            [
                columns.of_cells(columns.outcome_of(cells), cells),
                columns.of_cells(columns.REACHED, cells, "Load asked and reached"),
                columns.of_cells(columns.ORIGIN, cells, "What they were"),
            ],
        ),
        Section("What went wrong", [*tables, Transcripts(report.shown)]),
    ]


def match(
    cells_a: Sequence[results.CellSummary], cells_b: Sequence[results.CellSummary]
) -> tuple[list[Pair], list[str]]:
    """Return points that both have, as pairs, and a sentence for each that one of them lacks."""
    a, b = (
        [vars(cell) for point in results.load_points(side) for cell in point.cells]
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


POINTS = ("where", "figure", "n", "left out", A, B, "change", "95 %", "p (Holm)", "verdict")
CHANGE_NOTE = "change: from A to B; the verdict is B's."


def _names(keys: Sequence[Key]) -> dict[Key, str]:
    """Return the name of each point: its differences from others, and its load."""
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
