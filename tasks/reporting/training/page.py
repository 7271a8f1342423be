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

from tutti.tasks.reporting.figures.html import Figures, PageReport, Part, Quote, Section, write_page
from tutti.tasks.reporting.measures.numbers import count, p_value, share, span
from tutti.tasks.reporting.measures.table import Columns, tabulate
from tutti.tasks.reporting.text.columns import trials
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
FACTS: Columns[Any] = {
    "field": lambda fact: fact[0],
    "what": lambda f: f[1] if isinstance(f[1], str) else json.dumps(f[1], ensure_ascii=False),
}
LINEAGE: Columns[Any] = {
    "where": lambda row: "made from" if row["away"] < 0 else "made of it",
    "generations": lambda row: str(abs(row["away"])),
    "what": lambda row: str(row["artifact_id"]),
}


@dataclass(frozen=True)
class TrainingReport(PageReport):
    training: Training = field(kw_only=True)


def build_training_report(
    connection: "DuckDBPyConnection", checkpoint_id: str, out: Path, files: bool = False
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
    settings = _flat(training.card.get("settings") or {})
    near = sorted(training.lineage, key=lambda row: abs(row["away"]))[:SHOWN]
    left = len(training.lineage) - len(near)
    lineage = f"The nearest {SHOWN}, {left} more. " if left else ""
    sections = [
        Section("Held-out tasks, before and after", _held_out(training, cells), HELD_OUT_NOTE),
        Section("Step by step", [Figures(curve_plots(training.steps), beside=True)]),
        Section(
            "What it was trained on",
            _data(training),
            DATA_NOTE if (training.card.get("data") or {}).get("dropped") else "",
        ),
        Section("Objective and settings", [tabulate(FACTS, settings)] if settings else []),
        Section(
            "Lineage",
            [tabulate(LINEAGE, near)],
            f"{lineage}All of it: tutti lineage {training.checkpoint_id}",
        ),
        Section("Make it again", _again(training), AGAIN_NOTE),
    ]
    name = f"Training: {training.card.get('name') or checkpoint_id}"
    return write_page(report, name, _facts(training), sections, files)


def _facts(training: Training) -> dict[str, str]:
    card, machine = training.card, training.card.get("machine")
    objective = {key: str(value) for key, value in (card.get("objective") or {}).items()}
    facts = {
        "checkpoint": training.checkpoint_id,
        "base": str(training.job.get("base") or training.card.get("base") or ""),
        "objective": ", ".join([str(objective.pop("name", "")), *map(" ".join, objective.items())]),
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


def _held_out(training: Training, cells: Sequence[CellSummary]) -> list[Part]:
    if not training.held_out:
        return []
    paired = [each] if (each := training.card.get("paired")) is not None else []
    after = {cell.repeat: str(at) for cell, (at, _) in zip(cells, training.held_out, strict=False)}
    steps = [after.get(cell.repeat, "") for cell in cells for _ in cell.trials]
    table = trials(cells)
    alike = ("policy", "at once", "repeat")
    shown = {name: column for name, column in table.texts.items() if name not in alike}
    return [
        Figures([held_out_plot(training.held_out)]),
        tabulate(SCORES, training.held_out),
        tabulate(PAIRED, paired, "Last against first, paired by task", missing=""),
        replace(table, texts={"after step": steps} | shown).with_values(),
    ]


def _evaluations(connection: "DuckDBPyConnection", training: Training) -> list[CellSummary]:
    """The cells of a policy's evaluations, in order; those that were not reached have no n."""
    if training.held_out_sweep is None:
        return []
    with focus(connection, [training.held_out_sweep]) as focused:
        cells = cells_of(focused, training.held_out_sweep)
    return sorted((cell for cell in cells if cell.n), key=lambda cell: cell.repeat)


def _by_task(training: Training, cells: Sequence[CellSummary]) -> Training:
    """Return the training with intervals that account for several trials per task; the card's treat
    them as independent."""
    known = training.held_out
    if [score["n"] for _, score in known] != [cell.n for cell in cells]:
        return training
    scores = {
        str(after): {**score, "wilson_95": [cell.accuracy_low, cell.accuracy_high]}
        for (after, score), cell in zip(known, cells, strict=True)
    }
    return replace(training, card={**training.card, "held_out": scores})


def _data(training: Training) -> list[Part]:
    data = training.card.get("data")
    if not data:
        return []
    plain = {k: v for k, v in data.items() if not isinstance(v, Mapping)}
    facts = [("training set", training.card.get("training_set")), *plain.items()]
    parts: list[Part] = [tabulate(FACTS, facts)]
    for key, title in (("dropped", "Left out"), ("breaks", "New sequences within an attempt")):
        rows = sorted((data.get(key) or {}).items(), key=lambda pair: -pair[1])
        parts.append(tabulate(REASONS, rows, title, missing=""))
    return parts


def _again(training: Training) -> list[Part]:
    if training.command is None:
        return []
    job = yaml.safe_dump(_without_none(training.job), sort_keys=False, allow_unicode=True)
    return [Quote(training.command), Quote(job, "job.yaml", folded=True)]


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value


def _flat(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat += _flat(value, f"{before}{name}.")
        elif value not in (None, [], ""):
            flat.append((before + name, value))
    return flat
