"""The report of sweeps: one static page with tables and figures inside it.

In: a store's connection and sweep ids. Out: `index.html` in a folder, and on request `*.svg` and
`*.png` beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.figures import plots, timelines
from tutti.tasks.reporting.figures.html import Figures, PageReport, Section, Transcripts, write_page
from tutti.tasks.reporting.measures.anatomy import Anatomy, anatomies
from tutti.tasks.reporting.measures.efficiency import Efficiency, efficiencies
from tutti.tasks.reporting.measures.failures import (
    Failure,
    Transcript,
    failures,
    faults,
    transcripts,
)
from tutti.tasks.reporting.measures.families import FamilyScore, family_scores, subset_scores
from tutti.tasks.reporting.measures.named import NamedMetric, named_metrics
from tutti.tasks.reporting.measures.pairs import Noise, model_pairs, noise_floor, policy_pairs
from tutti.tasks.reporting.measures.table import tabulate
from tutti.tasks.reporting.measures.validity import (
    ScorerUse,
    scorer_findings,
    scorer_uses,
    validity_alarms,
)
from tutti.tasks.reporting.text import columns, words
from tutti.tasks.reporting.text.words import headlines
from tutti.tasks.sweeps.analysis import CellComparison, Figure, compare_pairs, compare_rates
from tutti.tasks.sweeps.results import CellSummary, cells_of, focus, in_order, without_a_a

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Report(PageReport):
    """A written report: its files and the rows behind them."""

    cells: list[CellSummary] = field(default_factory=list)
    scores: list[FamilyScore] = field(default_factory=list)
    subsets: list[FamilyScore] = field(default_factory=list)
    policies: list[CellComparison] = field(default_factory=list)
    """Each policy against the baseline, at each load; of two sweeps, each point of both."""
    models: list[CellComparison] = field(default_factory=list)
    steps: list[Anatomy] = field(default_factory=list)
    worth: list[Efficiency] = field(default_factory=list)
    """Efficiency: tasks solved against time, cost and energy, one row for each set-up."""
    noise: list[Noise] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    scorers: list[ScorerUse] = field(default_factory=list)
    metrics: list[NamedMetric] = field(default_factory=list)
    shown: dict[str, Transcript] = field(default_factory=dict)

    @property
    def compared(self) -> list[CellComparison]:
        return [*self.policies, *self.models]


def build_report(
    connection: "DuckDBPyConnection",
    sweep_ids: Sequence[str],
    out: Path,
    title: str,
    notes: Mapping[str, str],
    files: bool = True,
) -> Report:
    """Write the report of a load sweep (the first id) and of model comparisons (the others).

    Without comparisons the load sweep's own scores are shown by family. `notes` are facts for the
    header. With `files` each figure is also an SVG and a PNG file. Raises as `write_page`.
    """
    with focus(connection, sweep_ids) as focused:
        found = _rows(focused, sweep_ids, out / "index.html")
        sections = _sections(focused, found)
    return write_page(found, title, notes, sections, files)


def _rows(focused: "DuckDBPyConnection", sweep_ids: Sequence[str], page: Path) -> Report:
    cells = in_order(cells_of(focused, sweep_ids[0])) if sweep_ids else []
    others = [cell for each in sweep_ids[1:] for cell in cells_of(focused, each)]
    pairs = policy_pairs(cells)
    failed, scored = failures(focused, sweep_ids), sweep_ids[1:] or sweep_ids
    found = Report(
        page,
        gaps=words.gaps(cells),
        alarms=[*words.alarms(cells), *validity_alarms(focused)],
        cells=cells,
        scores=family_scores(focused, *scored),
        subsets=subset_scores(focused, *scored),
        policies=[*compare_pairs(focused, pairs), *compare_rates(pairs, cells)],
        models=compare_pairs(focused, model_pairs(others), [Figure.SCORE]),
        steps=anatomies(focused, without_a_a(cells)),
        worth=efficiencies(focused, cells),
        noise=noise_floor(cells),
        failed=failed,
        faults=faults(focused),
        scorers=scorer_uses(focused),
        metrics=named_metrics(focused),
        shown=transcripts(focused, failed),
    )
    findings = [
        *headlines(found.cells),
        *words.load_findings(found.cells, found.policies, found.noise),
        *words.cell_findings(found.cells),
        *words.model_findings(found.scores, found.models),
        *words.failure_findings(found.cells, found.failed),
        *scorer_findings(found.scorers),
    ]
    return replace(found, findings=findings)


def _sections(focused: "DuckDBPyConnection", found: Report) -> list[Section]:
    cells, own = found.cells, without_a_a(found.cells)
    families = columns.family_rows(found.scores)
    worth = replace(columns.efficiency(found.worth), title="")
    front = columns.FRONT_NOTE if "front" in worth.texts else ""
    return [
        Section(
            "Speed, accuracy, latency and cost under load",
            [
                Figures(plots.load_plots(own), beside=True),
                columns.of_cells(columns.outcome_of(cells), cells),
                columns.metrics(found.metrics, cells).with_values(),
                columns.trials(cells).with_values(),
            ],
            columns.OUTCOME_NOTE,
        ),
        Section(
            "Load asked and reached",
            [columns.of_cells(columns.REACHED, cells)],
            columns.REACHED_NOTE,
        ),
        Section(
            "What it is worth",
            [Figures([plots.pareto_plot(found.worth, own)]), worth],
            f"{columns.EFFICIENCY_NOTE} {front}".strip(),
        ),
        Section("Inside a step", [columns.anatomy(found.steps).with_values()]),
        Section(
            "Over time",
            [
                Figures(timelines.timeline_plots(focused, own)),
                columns.of_cells(columns.SERVER, cells),
            ],
            columns.SERVER_NOTE,
        ),
        Section(
            "Accuracy by family and model",
            [
                Figures([plots.family_plot(found.scores)]),
                tabulate(columns.families(families), families),
                columns.subsets(found.subsets),
            ],
        ),
        *_failures_and_comparisons(found),
    ]


def _failures_and_comparisons(found: Report) -> list[Section]:
    return [
        Section(
            "What went wrong",
            [
                columns.failures(found.failed, found.shown),
                tabulate(columns.FAULTS, found.faults, "Calls and tools that failed", missing=""),
                Transcripts(found.shown),
            ],
        ),
        Section(
            "What was compared with what",
            [
                tabulate(columns.COMPARISONS, found.compared, missing=""),
                columns.noise(found.noise, "Noise floor: the same, measured twice"),
                columns.of_cells(columns.ORIGIN, found.cells, "The cells"),
            ],
            columns.COMPARED_NOTE,
        ),
    ]
