"""A night in words: what was measured, what was compared with what, and what came of it.

In: a night's record and its stages' results. Out: Markdown, for the run's page in Prefect, and a
dictionary for programs.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tutti.tasks.nights.record import Record
from tutti.tasks.nights.verdict import StageResult
from tutti.tasks.sweeps.analysis import Outcome


def night_page(record: Record, results: Sequence[StageResult], notes: Sequence[str] = ()) -> str:
    """The night's verdict, its reason, and each stage's gates."""
    lines = [f"# {record.night.label}: {record.verdict}", "", record.reason, ""]
    kept = f"accepted: {record.accepted}" if record.accepted else "not accepted"
    lines.append(f"Compared with: {record.baseline or 'no earlier night'}. This night is {kept}.")
    lines += [f"\n{note}." for note in notes]
    for result in results:
        lines += ["", f"## {result.stage}: {result.status}", "", result.reason]
        if result.sweep_id is not None:
            against = f", margins against {result.against}" if result.against else ""
            lines += ["", f"Sweep `{result.sweep_id}`{against}"]
        lines += ["", *map(_line, result.outcomes)]
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


def _line(found: Outcome) -> str:
    """One gate at one set-up. No table: in a run's narrow page half of its columns are out of
    sight."""
    said = [] if found.value is None else [_number(found.value)]
    if found.low is not None and found.high is not None:
        said.append(f"95 % interval {_number(found.low)} to {_number(found.high)}")
    if found.p is not None:
        said.append("p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}")
    said += [] if found.n is None else [f"n = {found.n}"]
    said += [f"**{found.verdict}**"] if found.cells_a else []
    where = f" ({found.where})" if found.where else ""
    return f"- **{found.status}**: {found.gate}{where}: {', '.join(said) or found.reason}"


def _number(value: float) -> str:
    return f"{value:.3g}"
