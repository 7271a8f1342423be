"""Held-out scores of a policy: after each evaluation, and the last against the first.

In: finished cells. Out: what the card says. Trials of a task are no tasks of their own.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tutti.storage import Home, connect, query
from tutti.tasks.scoring import pass_at_k
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.sweeps.analysis import Side, compare_sides

OF_SIDES = ("where", "name_a", "name_b", "cells_a", "cells_b")
SCORES = (
    "select task_id, is_right, headline_score from counted where cell_id = $cell "
    "order by task_id, trial"
)


def held_out_score(cell_id: str, home: Home) -> dict[str, Any]:
    """Mean score and accuracy of a cell with their 95 % intervals over tasks; pass@k where every
    task has k trials."""
    scores: dict[str, list[float]] = {}
    right: dict[str, list[float]] = {}
    for row in query(SCORES, home, {"cell": cell_id}):
        scores.setdefault(row["task_id"], []).append(row["headline_score"])
        right.setdefault(row["task_id"], []).append(float(row["is_right"]))
    if not scores:
        return {"n": 0, "attempts": 0, "accuracy": 0.0, "wilson_95": [0.0, 1.0],
                "score": 0.0, "score_95": [0.0, 1.0], "pass_at_k": {}}  # fmt: skip
    mean, accuracy = mean_interval([*scores.values()]), mean_interval([*right.values()])
    trials = min(len(each) for each in right.values())
    return {
        "n": len(scores),
        "attempts": sum(len(each) for each in scores.values()),
        "accuracy": accuracy.value,
        "wilson_95": [accuracy.low, accuracy.high],
        "score": mean.value,
        "score_95": [mean.low, mean.high],
        "pass_at_k": {
            str(k): pass_at_k([*right.values()], k).value for k in {1, trials} if trials > 1
        },
    }


def paired(evaluated: Mapping[int, str], home: Home) -> dict[str, Any] | None:
    """The mean score of the last evaluation against the first, by task; None where there is only
    one. `evaluated`: cells by steps."""
    cells = [evaluated[after] for after in sorted(evaluated)]
    if len(cells) < 2 or cells[0] == cells[-1]:
        return None
    with closing(connect(home, ("counted", "lost_samples"))) as connection:
        sides = [Side.find(connection, cell) for cell in (cells[0], cells[-1])]
        assert sides[0] is not None and sides[1] is not None, f"evaluated: {cells}"
        (found,) = compare_sides(connection, sides[0], sides[1])
    return {name: value for name, value in asdict(found).items() if name not in OF_SIDES}


def summary_table(card: Mapping[str, Any]) -> tuple[Table, list[dict[str, Any]]]:
    """Held-out scores after each evaluation, and the difference of the last to the first."""
    rows = [_shown(after, each) for after, each in card["held_out"].items()]
    table = Table(box=SIMPLE_HEAD, title="held-out tasks", title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    if (found := card["paired"]) is not None and found["ci_low"] is not None:
        points, low, high = (100 * found[name] for name in ("difference", "ci_low", "ci_high"))
        table.caption = f"score {points:+.1f} points [{low:+.1f}, {high:+.1f}], paired by task"
    return table, rows


def _shown(after: str, each: Mapping[str, Any]) -> dict[str, Any]:
    row = {"after step": after, "tasks": each["n"], "score": f"{each['score']:.1%}"}
    row |= {"95 %": _range(each["score_95"]), "correct": f"{each['accuracy']:.1%}"}
    return row | {f"pass@{k}": f"{value:.1%}" for k, value in each["pass_at_k"].items() if k != "1"}


def _range(ends: list[float | None]) -> str:
    low, high = ends
    return "unknown" if low is None or high is None else f"{low:.1%} to {high:.1%}"
