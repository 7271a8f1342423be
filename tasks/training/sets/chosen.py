"""The attempts that a query selects, each with its weight, label or pair, and their sequences.

The order does not depend on the query's, so that the same attempts make the same training set.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.storage import BrokenSpans, Catalog, Home, query
from tutti.tasks.training.jobs.job import JobError, rows_of
from tutti.tasks.training.objectives import PAIRS
from tutti.tasks.training.sets.sequences import (
    NOT_TRAINED,
    AttemptSequences,
    TokenSequence,
    recorded_calls,
    sequences_of,
)

LABELLED, SAME_TURNS = "kto", "sdpo"
PARTNER = "the other side of its pair is left out"
SEVERAL = "several sequences, and a side of a pair is one"
TWO_TASKS = "the sides of its pair are of two tasks"
TURNS = "the sides of its pair differ in turns"


@dataclass(frozen=True)
class Chosen:
    """An attempt that the query selects."""

    attempt_id: str
    weight: float = 1.0
    wanted: bool | None = None
    pair: int | None = None
    """Number of its pair, of which `wanted` says its side; an attempt may be in several."""


def chosen_by(sql: str, objective: str, catalog: Catalog) -> list[Chosen]:
    """Return the attempts of a query; the two sides of a pair are adjacent. Raises JobError if the
    query fails, or if the objective cannot train on its rows."""
    rows = rows_of(sql, catalog.home, "data.from")
    if not rows:
        raise JobError("data.from: the query gives no row")
    if {"chosen", "rejected"} <= rows[0].keys():
        return _pairs(rows, objective)
    if objective in PAIRS:
        raise JobError(f"data.from: {objective} needs the columns chosen and rejected")
    if "attempt_id" not in rows[0]:
        raise JobError(f"data.from: gives {', '.join(rows[0])}; it must give attempt_id")
    chosen = [_attempt(row, f"data.from: row {nth}") for nth, row in enumerate(rows, 1)]
    _check_once(each.attempt_id for each in chosen)
    if objective == LABELLED and any(each.wanted is None for each in chosen):
        raise JobError(f"data.from: {objective} needs the column wanted, true or false in each row")
    return sorted(chosen, key=lambda each: each.attempt_id)


def _attempt(row: Mapping[str, Any], where: str) -> Chosen:
    given, wanted = row.get("weight"), row.get("wanted")
    try:
        weight = 1.0 if given is None else float(given)
    except (TypeError, ValueError):
        weight = math.nan
    if not math.isfinite(weight):
        raise JobError(f"{where}: weight {given!r} is no number")
    if wanted not in (None, True, False):
        raise JobError(f"{where}: wanted {wanted!r} is neither true nor false")
    return Chosen(str(row["attempt_id"]), weight, None if wanted is None else bool(wanted))


def _pairs(rows: Sequence[Mapping[str, Any]], objective: str) -> list[Chosen]:
    if objective not in (*PAIRS, LABELLED):
        raise JobError(
            f"data.from: gives pairs, and {objective} would learn from their rejected sides too; "
            f"name the objective {', '.join(PAIRS)} or {LABELLED}, or give attempt_id"
        )
    pairs = sorted((str(row["chosen"]), str(row["rejected"])) for row in rows)
    for better, worse in pairs:
        if better == worse:
            raise JobError(f"data.from: gives {better} as chosen and as rejected of one pair")
    _check_once(" over ".join(each) for each in pairs)
    return [
        Chosen(name, wanted=wanted, pair=nth)
        for nth, pair in enumerate(pairs)
        for name, wanted in zip(pair, (True, False), strict=True)
    ]


def _check_once(names: Iterable[str]) -> None:
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise JobError(f"data.from: gives {twice[0]} more than once; it would be learned twice")


def whole_pairs(
    rows: Sequence[dict[str, Any]],
    task_of: Mapping[str, str],
    objective: str,
    reasons: dict[str, str],
) -> list[dict[str, Any]]:
    """Return the rows of complete pairs; attempts without such a row are added to `reasons`.

    A side must be one sequence: with several, the loss over two answers to one prompt cannot tell
    which of them answer the same prompt. For SDPO, both sides must have equally many turns.
    """
    sides: dict[int, tuple[list[Any], list[Any]]] = {}
    for row in rows:
        sides.setdefault(row["pair"], ([], []))[0 if row["wanted"] else 1].append(row)
    kept, lost = [], dict[str, str]()
    for _, (better, worse) in sorted(sides.items()):
        flaw = None
        if len(better) != 1 or len(worse) != 1:
            flaw = PARTNER
        elif task_of[better[0]["name"]] != task_of[worse[0]["name"]]:
            flaw = TWO_TASKS
        elif objective == SAME_TURNS and _turns(better[0]) != _turns(worse[0]):
            flaw = TURNS
        if flaw is None:
            kept += [*better, *worse]
            continue
        for side in (better, worse):
            lost |= {row["name"]: SEVERAL if len(side) > 1 else flaw for row in side}
    still = {row["name"] for row in kept}
    reasons.update({name: why for name, why in lost.items() if name not in still})
    return kept


def _turns(row: Mapping[str, Any]) -> int:
    if "messages" in row:
        return sum(message["role"] == "assistant" for message in row["messages"])
    return len({*row["turns"]} - {NOT_TRAINED})


AT_ONCE = 200
"""Attempts whose rows are in memory at the same time."""
CALLS = (
    "select call_id, attempt_id, token_ids, logprobs, prompt_token_ids, weights_at_start, "
    "role = 'orchestrator' and status = 'ok' as is_turn "
    "from calls where attempt_id in (select unnest($ids)) order by attempt_id, step, sent_at"
)
"""All calls in their order. The turns are the answered calls of the trained model; their prompts
may refer to calls that failed, or that others answered."""
UNRECORDED, CUT = "no token ids were recorded", "every answer was cut"


def rows_by_attempt(
    sql: str, names: Sequence[str], home: Home
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the index of each name and its rows of a statement that uses `$ids`."""
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in query(sql, home, {"ids": list(some)}):
            rows.setdefault(row["attempt_id"], []).append(row)
        yield from ((first + nth, rows.get(name, [])) for nth, name in enumerate(some))


def read_sequences(
    names: Sequence[str], ends: frozenset[int], home: Home, reasons: dict[str, str]
) -> Iterator[tuple[int, AttemptSequences]]:
    """Yield the index of each attempt with recorded ids and its sequences. `ends` are the ids that
    end a turn; attempts with nothing to train on are added to `reasons`."""
    for place, calls in rows_by_attempt(CALLS, names, home):
        name = names[place]
        try:
            recorded = recorded_calls(calls)
        except BrokenSpans as error:
            recorded, reasons[name] = None, f"broken spans: {error}"
        if not recorded:
            reasons.setdefault(name, UNRECORDED)
            continue
        sequences = sequences_of(recorded, ends)
        if not sequences.sequences:
            reasons[name] = CUT
        yield place, sequences


def row_of(name: str, sequence: TokenSequence, values: Sequence[float]) -> dict[str, Any]:
    """A sequence as a row for the trainer; `values` [n] are weights or advantages of its ids."""
    row = {"name": name, "ids": sequence.ids, "turns": sequence.turns, "values": list(values)}
    return row | {"logprobs": sequence.logprobs, "wanted": None, "pair": None}


def counts_of(every: Sequence[AttemptSequences]) -> dict[str, Any]:
    """Count truncated answers, and sequences after the first of an attempt by reason."""
    breaks: Counter[str] = sum((each.breaks for each in every), Counter())
    return {"truncated_calls": sum(each.truncated for each in every), "breaks": dict(breaks)}
