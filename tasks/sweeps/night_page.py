"""A night in words: what was measured, what was compared with what, and what came of it.

In: a night's record and its stages' results. Out: Markdown, for the run's page in Prefect, and a
dictionary for programs.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tasks.sweeps.gates import Outcome
from tasks.sweeps.night_record import Record
from tasks.sweeps.night_verdict import StageResult

HEAD = ("gate", "set-up", "", "than the baseline", "n", "value", "95 % interval", "p")


def night_page(record: Record, results: Sequence[StageResult], notes: Sequence[str] = ()) -> str:
    """The night's verdict, its reason, and a table for each stage."""
    lines = [f"# {record.night.label}: {record.verdict}", "", record.reason, ""]
    kept = f"accepted: {record.accepted}" if record.accepted else "not accepted"
    lines.append(f"Compared with: {record.baseline or 'no earlier night'}. This night is {kept}.")
    lines += [f"\n{note}." for note in notes]
    for result in results:
        lines += ["", f"## {result.stage}: {result.status}", "", result.reason]
        if result.sweep_id is not None:
            against = f", margins against {result.against}" if result.against else ""
            lines += ["", f"Sweep `{result.sweep_id}`{against}"]
        if result.outcomes:
            lines += ["", _row(HEAD), _row(("---",) * len(HEAD))]
            lines += [_row(_cells(each)) for each in result.outcomes]
    return "\n".join(lines) + "\n"


def night_dict(
    record: Record, results: Sequence[StageResult], notes: Sequence[str]
) -> dict[str, Any]:
    """The same for `--json`."""
    stages = [
        {
            "stage": each.stage,
            "status": each.status,
            "reason": each.reason,
            "sweep_id": each.sweep_id,
            "against": each.against,
            "gates": [asdict(gate) | {"gate": str(gate.gate)} for gate in each.outcomes],
        }
        for each in results
    ]
    return {
        "night": record.night.label,
        "verdict": record.verdict,
        "reason": record.reason,
        "accepted": record.accepted,
        "baseline": record.baseline,
        "whole": record.whole,
        "stages": stages,
        "notes": list(notes),
    }


def _cells(found: Outcome) -> tuple[str, ...]:
    interval = "" if found.low is None else f"{_number(found.low)} to {_number(found.high)}"
    p = "" if found.p is None else "< 0.001" if found.p < 0.001 else f"{found.p:.3f}"
    n = "" if found.n is None else str(found.n)
    than = found.verdict if found.cells_a else ""
    told = (str(found.gate), found.where, f"**{found.status}**", than)
    return (*told, n, _number(found.value), interval, p)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
