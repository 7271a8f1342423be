"""Pairs of which both sides can be compared; of any other both are left out.

A side is one sequence: a loss over two answers to one prompt cannot say which of an attempt's
several sequences answers which of the other's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.training.sets.chosen import Chosen
from tutti.tasks.training.sets.sequences import NOT_TRAINED

PARTNER = "the other side of its pair is left out"
SEVERAL = "several sequences, and a side of a pair is one"
TWO_TASKS = "the sides of its pair are of two tasks"
TURNS = "the sides of its pair differ in turns"


def whole_pairs(
    rows: Sequence[dict[str, Any]], task_of: Mapping[str, str], reasons: dict[str, str]
) -> list[dict[str, Any]]:
    """Rows of pairs that are whole; `reasons` gets the attempts of which no row is left."""
    sides: dict[tuple[int, bool], list[dict[str, Any]]] = {}
    for row in rows:
        sides.setdefault((row["pair"], row["wanted"]), []).append(row)
    kept, lost = [], dict[str, str]()
    for pair in sorted({pair for pair, _ in sides}):
        better, worse = sides.get((pair, True), []), sides.get((pair, False), [])
        flaw = _flaw(better, worse, task_of)
        if flaw is None:
            kept += [*better, *worse]
            continue
        for side in (better, worse):
            lost |= {row["name"]: SEVERAL if len(side) > 1 else flaw for row in side}
    still = {row["name"] for row in kept}
    reasons.update({name: why for name, why in lost.items() if name not in still})
    return kept


def same_turns(rows: Sequence[dict[str, Any]], reasons: dict[str, str]) -> list[dict[str, Any]]:
    """Whole pairs whose sides have equally many turns: SDPO compares no others."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    kept = [row for pair in pairs if _turns(pair[0]) == _turns(pair[1]) for row in pair]
    still = {row["name"] for row in kept}
    reasons.update({row["name"]: TURNS for row in rows if row["name"] not in still})
    return kept


def in_pairs(chosen: Sequence[Chosen]) -> bool:
    """Whether a query gave pairs."""
    return bool(chosen) and chosen[0].pair is not None


def _flaw(
    better: Sequence[dict[str, Any]], worse: Sequence[dict[str, Any]], task_of: Mapping[str, str]
) -> str | None:
    if len(better) != 1 or len(worse) != 1:
        return PARTNER
    same = task_of[better[0]["name"]] == task_of[worse[0]["name"]]
    return None if same else TWO_TASKS


def _turns(row: Mapping[str, Any]) -> int:
    if "messages" in row:
        return sum(message["role"] == "assistant" for message in row["messages"])
    return len({*row["turns"]} - {NOT_TRAINED})
