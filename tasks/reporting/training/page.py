"""The page of one training: curves, held-out tasks, data, settings, ancestry, and its command.

In: a store's connection and a checkpoint's id. Out: `index.html` in a folder, self-contained, and
on request its figures as files. Reads tables and cards only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tutti.tasks.reporting.html import Figures, PageReport, Part, Quote, Section, write_page
from tutti.tasks.reporting.table import Columns, Table, tabulate
from tutti.tasks.reporting.text.columns import trials
from tutti.tasks.reporting.text.numbers import count, p_value, share, span
from tutti.tasks.reporting.training.curves import curve_plots, held_out_plot
from tutti.tasks.reporting.training.record import Training, alarms, findings, gaps, training_of
from tutti.tasks.sweeps.results import CellSummary, cells_of, focus

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


HELD_OUT_NOTE = (
    "Accuracy over attempts that count (ok, limit, model_error), with Wilson's interval: several "
    "trials of a task count as what they are worth. The difference is of the last "
    "evaluation to the first, paired by task."
)
DATA_NOTE = "Attempts that the query named and the set does not hold, by the reason."
AGAIN_NOTE = (
    "The same job on the same base and data finds this checkpoint and trains nothing; on another "
    "machine losses may differ by rounding."
)
SHOWN = 60
"""Neighbours in the lineage; `tutti lineage` shows all."""


SCORES: Columns[Any] = {
    "after step": lambda row: str(row[0]),
    "n": lambda row: count(row[1]["n"]),
    "accuracy": lambda row: share(row[1]["accuracy"]),
    "95 %": lambda row: span(share, *row[1]["wilson_95"]),
}
PAIRED: Columns[Any] = {
    "difference": lambda row: f"{100 * row['difference']:+.1f} points",
    "95 %": lambda row: f"{100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f}",
    "tasks": lambda row: count(row["n"]),
    "p": lambda row: p_value(row["p"]),
    "test": lambda row: str(row["test"]),
    "verdict": lambda row: str(row["verdict"]),
    "why": lambda row: str(row["reason"]),
}
REASONS: Columns[Any] = {"why": lambda row: str(row[0]), "n": lambda row: count(row[1])}
FACTS: Columns[Any] = {"field": lambda fact: fact[0], "what": lambda fact: _text(fact[1])}
LINEAGE: Columns[Any] = {
    "where": lambda row: "made from" if row["away"] < 0 else "made of it",
    "generations": lambda row: str(abs(row["away"])),
    "what": lambda row: str(row["artifact_id"]),
}


@dataclass(frozen=True)
class TrainingReport(PageReport):
    """A written page, and what it says."""

    training: Training = field(kw_only=True)


def build_training_report(
    connection: "DuckDBPyConnection",
    checkpoint_id: str,
    out: Path,
    title: str = "",
    files: bool = False,
) -> TrainingReport:
    """Write the page of a checkpoint or an adapter. Raises UsageError for an unknown one."""
    training = training_of(connection, checkpoint_id)
    cells = _evaluations(connection, training)
    training = _by_task(training, cells)
    report = TrainingReport(
        out / "index.html",
        findings=findings(training),
        gaps=gaps(training),
        alarms=alarms(training),
        training=training,
    )
    sections = [
        *_held_out(training, cells),
        Section("Step by step", [Figures(curve_plots(training.steps), beside=True)]),
        *_data(training),
        *_settings(training),
        _lineage(training),
        *_again(training),
    ]
    name = title or f"Training: {training.card.get('name') or checkpoint_id}"
    return write_page(report, name, _facts(training), sections, files)


def _facts(training: Training) -> dict[str, str]:
    card, machine = training.card, training.card.get("machine")
    facts = {
        "checkpoint": training.checkpoint_id,
        "base": str(training.job.get("base") or training.card.get("base") or ""),
        "objective": _pairs(card.get("objective")),
        "steps": count(len(training.steps)),
        "made": f"{training.made_at:%Y-%m-%d %H:%M} UTC",
        "command": training.command or "",
        "code": str(card.get("code_version") or ""),
    }
    if machine:
        facts["machine"] = "{cores} cores, {memory_gib} GiB, {processor}".format(**machine)
    if parameters := card.get("parameters"):
        facts["parameters"] = count(parameters)
    return {name: value for name, value in facts.items() if value}


def _held_out(training: Training, cells: Sequence[CellSummary]) -> list[Section]:
    if not training.held_out:
        return []
    paired = [each] if (each := training.card.get("paired")) is not None else []
    parts: list[Part] = [
        Figures([held_out_plot(training.held_out)]),
        tabulate(SCORES, training.held_out),
        tabulate(PAIRED, paired, "Last against first, paired by task", missing=""),
        _trials(training, cells),
    ]
    return [Section("Held-out tasks, before and after", parts, HELD_OUT_NOTE)]


def _evaluations(connection: "DuckDBPyConnection", training: Training) -> list[CellSummary]:
    """The cells of a policy's evaluations, in order; those that were not reached have no n."""
    if training.held_out_sweep is None:
        return []
    with focus(connection, [training.held_out_sweep]) as focused:
        found = cells_of(focused, training.held_out_sweep)
    return sorted((cell for cell in found if cell.n), key=lambda cell: cell.repeat)


def _by_task(training: Training, cells: Sequence[CellSummary]) -> Training:
    """The training with intervals that count several trials of a task as what they are worth; the
    card's take them as independent."""
    known = training.held_out
    if [score["n"] for _, score in known] != [cell.n for cell in cells]:
        return training
    scores = {
        str(after): {**score, "wilson_95": [cell.accuracy_low, cell.accuracy_high]}
        for (after, score), cell in zip(known, cells, strict=True)
    }
    return replace(training, card={**training.card, "held_out": scores})


def _trials(training: Training, cells: Sequence[CellSummary]) -> Table:
    """pass@k beside pass@1 of each evaluation, where tasks have several trials."""
    after = {cell.repeat: str(at) for cell, (at, _) in zip(cells, training.held_out, strict=False)}
    steps = [after.get(cell.repeat, "") for cell in cells for _ in cell.trials]
    table = trials(cells)
    alike = ("policy", "at once", "repeat")
    shown = {name: column for name, column in table.texts.items() if name not in alike}
    return replace(table, texts={"after step": steps} | shown).with_values()


def _data(training: Training) -> list[Section]:
    data = training.card.get("data")
    if not data:
        return []
    plain = {k: v for k, v in data.items() if not isinstance(v, Mapping)}
    parts = [tabulate(FACTS, [("training set", training.card.get("training_set")), *plain.items()])]
    for key, title in (("dropped", "Left out"), ("breaks", "New sequences within an attempt")):
        rows = sorted((data.get(key) or {}).items(), key=lambda pair: -pair[1])
        parts.append(tabulate(REASONS, rows, title, missing=""))
    return [Section("What it was trained on", parts, DATA_NOTE if data.get("dropped") else "")]


def _settings(training: Training) -> list[Section]:
    facts = _flat(training.card.get("settings") or {})
    return [Section("Objective and settings", [tabulate(FACTS, facts)])] if facts else []


def _lineage(training: Training) -> Section:
    rows = [*training.lineage]
    near = sorted(rows, key=lambda row: abs(row["away"]))[:SHOWN]
    left = f"The nearest {SHOWN} of {len(rows)}. " if len(rows) > SHOWN else ""
    note = f"{left}All of it: tutti lineage {training.checkpoint_id}"
    return Section("Lineage", [tabulate(LINEAGE, near)], note)


def _again(training: Training) -> list[Section]:
    if training.command is None:
        return []
    job = yaml.safe_dump(_set(training.job), sort_keys=False, allow_unicode=True)
    parts = [Quote(training.command), Quote(job, "job.yaml", folded=True)]
    return [Section("Make it again", parts, AGAIN_NOTE)]


def _set(value: Any) -> Any:
    """A job without what is not set."""
    if isinstance(value, Mapping):
        return {k: _set(v) for k, v in value.items() if v is not None}
    return value


def _flat(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Settings by dotted names; without what is empty."""
    found: list[tuple[str, Any]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{before}{name}.")
        elif value not in (None, [], ""):
            found.append((before + name, value))
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pairs(objective: Mapping[str, Any] | None) -> str:
    found = dict(objective or {})
    name = str(found.pop("name", ""))
    return ", ".join([name, *(f"{key} {value}" for key, value in found.items())])
