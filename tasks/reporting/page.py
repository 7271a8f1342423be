"""The report: one static page with tables and figures inside it, and the figures as files.

In: a store's connection and sweep ids. Out: `index.html` in a folder, and on request `*.svg` and
`*.png` beside it. The page loads nothing from anywhere, so it can be mailed, archived and opened
without a network.
"""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from tutti.tasks.reporting import html
from tutti.tasks.reporting.anatomy import Anatomy, anatomies
from tutti.tasks.reporting.efficiency import Efficiency, efficiencies
from tutti.tasks.reporting.failures import Failure, Fault, Transcript, failures, faults, transcripts
from tutti.tasks.reporting.families import FamilyScore, pooled_family_scores, subset_scores
from tutti.tasks.reporting.figures import capacity, plots, timelines
from tutti.tasks.reporting.figures.drawing import Plot, png, svg
from tutti.tasks.reporting.focus import focus
from tutti.tasks.reporting.noise import Noise, noise_floor
from tutti.tasks.reporting.paired import (
    SCORE,
    SetupComparison,
    compare_pairs,
    compare_rates,
    model_pairs,
    policy_pairs,
)
from tutti.tasks.reporting.scorers import ScorerUse, scorer_findings, scorer_uses
from tutti.tasks.reporting.scores.named import NamedMetric, named_metrics
from tutti.tasks.reporting.summary import CellSummary, cells_of, in_order, without_a_a
from tutti.tasks.reporting.text import words
from tutti.tasks.reporting.text.columns import (
    COMPARISONS,
    FAULTS,
    NOISE,
    ORIGIN,
    REACHED,
    SERVER,
    anatomy_columns,
    efficiency,
    family_columns,
    family_rows,
    identity,
    outcome_of,
    subset_columns,
    trial_columns,
    trial_rows,
    which,
)
from tutti.tasks.reporting.text.headline import headlines
from tutti.tasks.reporting.text.metrics import metric_columns, metric_rows
from tutti.tasks.reporting.text.notes import (
    COMPARED_NOTE,
    EFFICIENCY_NOTE,
    FRONT_NOTE,
    NOISE_NOTE,
    OUTCOME_NOTE,
    REACHED_NOTE,
    SERVER_NOTE,
    TRIALS_NOTE,
)
from tutti.tasks.reporting.validity import validity_alarms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Report:
    """A written report: its files and the rows behind them."""

    page: Path
    plots: dict[str, Path]
    """PNG files by name, where they were asked for; a figure without data has none."""
    cells: list[CellSummary]
    scores: list[FamilyScore]
    compared: list[SetupComparison]
    failed: list[Failure]
    findings: list[str]
    """The report in words."""
    gaps: list[str]
    """Sentences about missing measurements."""
    worth: list[Efficiency] = field(default_factory=list)
    """Efficiency: tasks solved against time, cost and energy, one row for each set-up."""
    noise: list[Noise] = field(default_factory=list)
    """The noise floor: differences between repeated measurements of one set-up."""
    alarms: list[str] = field(default_factory=list)
    """Warnings that limit the validity of the whole report."""
    metrics: list[NamedMetric] = field(default_factory=list)
    """What benchmarks report beside their headline scores, by cell."""


@dataclass(frozen=True)
class ReportRows:
    """The rows of a report, before they become sentences, figures and tables."""

    cells: list[CellSummary]
    scores: list[FamilyScore]
    subsets: list[FamilyScore]
    """Scores by subset of the benchmarks that have some, such as the subject."""
    policies: list[SetupComparison]
    """Each policy against the baseline, at each load."""
    models: list[SetupComparison]
    """Each model of the comparison sweeps against the first."""
    steps: list[Anatomy]
    worth: list[Efficiency]
    noise: list[Noise]
    failed: list[Failure]
    faults: list[Fault]
    scorers: list[ScorerUse]
    metrics: list[NamedMetric]
    shown: dict[str, Transcript]
    invalid: Sequence[str]


@dataclass(frozen=True)
class ReportPlots:
    """The report's figures."""

    load: list[Plot]
    reached: Plot
    worth: list[Plot]
    anatomy: Plot
    time: list[Plot]
    latency: Plot
    families: Plot

    @property
    def all(self) -> list[Plot]:
        """In the order of the page."""
        first = [*self.load, self.reached, *self.worth]
        return [*first, self.anatomy, self.latency, *self.time, self.families]


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
    header: machine, model, task set, code version. With `files` each figure is also an SVG and a
    PNG file. Each file is renamed into place whole, the page last. Raises OSError when `out` cannot
    be written.
    """
    with focus(connection, sweep_ids) as focused:
        found = _found(connection, focused, sweep_ids)
        drawn = _drawn(focused, found)
    svgs = draw(drawn.all)
    pngs = write_figures(out, drawn.all, svgs) if files else {}
    alarms = [*words.alarms(found.cells), *found.invalid]
    said = [
        *headlines(found.cells),
        *words.load_findings(found.cells, found.policies, found.noise),
        *words.efficiency_findings(found.worth),
        *words.cell_findings(found.cells),
        *words.model_findings(found.scores, found.models),
        *words.failure_findings(found.cells, found.failed),
        *scorer_findings(found.scorers),
    ]
    gaps = words.gaps(found.cells)
    page = write_page(out, title, notes, (alarms, said, gaps), _sections(found, drawn, svgs))
    compared = [*found.policies, *found.models]
    return Report(
        page,
        pngs,
        found.cells,
        found.scores,
        compared,
        found.failed,
        said,
        gaps,
        found.worth,
        found.noise,
        alarms,
        found.metrics,
    )


def _drawn(focused: "DuckDBPyConnection", found: ReportRows) -> ReportPlots:
    cells = without_a_a(found.cells)
    return ReportPlots(
        load=plots.load_plots(cells),
        reached=capacity.reached_plot(cells),
        worth=[
            capacity.goodput_plot(found.worth, cells),
            capacity.pareto_plot(found.worth, cells),
        ],
        anatomy=timelines.anatomy_plot(found.steps, cells),
        time=timelines.timeline_plots(focused, cells),
        latency=plots.latency_plot(focused, cells),
        families=plots.family_plot(found.scores),
    )


def draw(all_plots: Sequence[Plot]) -> dict[str, str]:
    """SVG text by name of those plots that have data."""
    return {plot.name: svg(plot) for plot in all_plots if plot.figure is not None}


def write_figures(out: Path, all_plots: Sequence[Plot], svgs: Mapping[str, str]) -> dict[str, Path]:
    """Each drawn figure as `name.svg` and `name.png` in `out`; returns the PNG files by name."""
    out.mkdir(parents=True, exist_ok=True)
    pngs = {}
    for plot in all_plots:
        if plot.figure is not None:
            pngs[plot.name] = out / f"{plot.name}.png"
            _write(out / f"{plot.name}.svg", svgs[plot.name].encode())
            _write(pngs[plot.name], png(plot))
    return pngs


def write_page(
    out: Path,
    title: str,
    notes: Mapping[str, str],
    sentences: tuple[Sequence[str], Sequence[str], Sequence[str]],
    sections: Sequence[str],
) -> Path:
    """Write `index.html` in `out`, which is made; returns its path.

    `sentences`: alarms, findings, and what is missing.
    """
    alarms, findings, gaps = sentences
    light, dark = html.theme()
    text = resources.files("tutti.tasks.reporting").joinpath("page.html").read_text("utf-8")
    page = Template(text).substitute(
        title=escape(title),
        light=light,
        dark=dark,
        notes=html.notes(notes),
        alarms=html.alarms(alarms),
        findings=html.items(findings, "No measurements to summarise."),
        gaps=html.items(gaps, "Nothing is missing."),
        sections="\n".join(sections),
    )
    out.mkdir(parents=True, exist_ok=True)
    _write(out / "index.html", page.encode())
    return out / "index.html"


def _found(
    connection: "DuckDBPyConnection", focused: "DuckDBPyConnection", sweep_ids: Sequence[str]
) -> ReportRows:
    cells = in_order(cells_of(focused, sweep_ids[0])) if sweep_ids else []
    others = [cell for each in sweep_ids[1:] for cell in cells_of(focused, each)]
    pairs = policy_pairs(cells)
    failed = failures(focused, sweep_ids)
    return ReportRows(
        cells=cells,
        scores=pooled_family_scores(focused, sweep_ids[1:] or sweep_ids),
        subsets=subset_scores(focused, sweep_ids[1:] or sweep_ids),
        policies=[*compare_pairs(connection, pairs), *compare_rates(pairs, cells)],
        models=compare_pairs(connection, model_pairs(others), [SCORE]),
        steps=anatomies(focused, without_a_a(cells)),
        worth=efficiencies(focused, cells),
        noise=noise_floor(cells),
        failed=failed,
        faults=faults(focused),
        scorers=scorer_uses(focused),
        metrics=named_metrics(focused),
        shown=transcripts(focused, failed),
        invalid=validity_alarms(focused),
    )


def _sections(found: ReportRows, drawn: ReportPlots, svgs: Mapping[str, str]) -> list[str]:
    named = identity(found.cells)
    return [
        html.section(
            "Speed, accuracy, latency and cost under load",
            html.figures(drawn.load, svgs, beside=True),
            html.table({**named, **outcome_of(found.cells)}, found.cells),
            _metrics(found.metrics, found.cells),
            _trials(found.cells),
            note=OUTCOME_NOTE,
        ),
        html.section(
            "Load asked and reached",
            html.figures([drawn.reached], svgs),
            html.table({**named, **REACHED}, found.cells),
            note=REACHED_NOTE,
        ),
        html.section(
            "What it is worth",
            html.figures(drawn.worth, svgs, beside=True),
            html.table({**which(found.worth), **efficiency(found.worth)}, found.worth),
            note=_efficiency_note(found.worth),
        ),
        html.section(
            "Inside a step",
            html.figures([drawn.anatomy], svgs),
            html.table(anatomy_columns(found.steps), found.steps),
            html.figures([drawn.latency], svgs),
        ),
        html.section(
            "Over time",
            html.figures(drawn.time, svgs),
            html.table({**named, **SERVER}, found.cells),
            note=SERVER_NOTE,
        ),
        html.section(
            "Accuracy by family and model",
            html.figures([drawn.families], svgs),
            html.table(family_columns(family_rows(found.scores)), family_rows(found.scores)),
            _subsets(found.subsets),
        ),
        _what_failed(found),
        _what_was_compared(found),
    ]


def _efficiency_note(found: Sequence[Efficiency]) -> str:
    return " ".join([EFFICIENCY_NOTE, *([FRONT_NOTE] if "front" in efficiency(found) else [])])


def _what_failed(found: ReportRows) -> str:
    return html.section(
        "What went wrong",
        html.failure_table(found.failed, found.shown),
        html.subsection("Calls and tools that failed", html.table(FAULTS, found.faults))
        if found.faults
        else "",
        html.subsection("Transcripts", html.transcript_list(found.shown)) if found.shown else "",
    )


def _what_was_compared(found: ReportRows) -> str:
    compared = [*found.policies, *found.models]
    return html.section(
        "What was compared with what",
        html.table(COMPARISONS, compared) if compared else "",
        _noise(found.noise),
        html.subsection("The cells", html.table({**identity(found.cells), **ORIGIN}, found.cells)),
        note=COMPARED_NOTE,
    )


def _metrics(metrics: Sequence[NamedMetric], cells: Sequence[CellSummary]) -> str:
    found = metric_rows(metrics, cells)
    if not found:
        return ""
    table = html.table(metric_columns(found), found)
    return html.subsection("What the benchmark reports besides", table)


def _trials(cells: Sequence[CellSummary]) -> str:
    found = trial_rows(cells)
    if not found:
        return ""
    table = html.table(trial_columns(found), found)
    return html.subsection("Several trials a task", table + html.said_below(TRIALS_NOTE))


def _subsets(found: Sequence[FamilyScore]) -> str:
    if not found:
        return ""
    ordered = sorted(found, key=lambda each: each.family)
    return html.subsection("By subset", html.table(subset_columns(ordered), ordered))


def _noise(found: Sequence[Noise]) -> str:
    if not found:
        return ""
    table = html.table({**which(found), **NOISE}, found)
    return html.subsection(
        "Noise floor: the same, measured twice", table + html.said_below(NOISE_NOTE)
    )


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
