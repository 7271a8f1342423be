"""The attempts that a query names, each with its weight, label or pair.

In: SQL. Out: attempts in an order that does not depend on the query's, so that the same attempts
make the same training set. Of a pair of which not both sides can be compared, both are left out: a
side is one sequence, as a loss over two answers to one prompt cannot say which of an attempt's
several sequences answers which of the other's.

Their sequences of recorded ids are read from the store some attempts at a time.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.storage import BrokenSpans, Catalog, Home, query
from tutti.tasks.training.job import JobError, rows_of
from tutti.tasks.training.objectives import PAIRS
from tutti.tasks.training.sets.sequences import (
    NOT_TRAINED,
    AttemptSequences,
    TokenSequence,
    recorded_calls,
    sequences_of,
)

LABELLED = "kto"
PARTNER = "the other side of its pair is left out"
SEVERAL = "several sequences, and a side of a pair is one"
TWO_TASKS = "the sides of its pair are of two tasks"
TURNS = "the sides of its pair differ in turns"


@dataclass(frozen=True)
class Chosen:
    """An attempt that the query names."""

    attempt_id: str
    weight: float = 1.0
    wanted: bool | None = None
    pair: int | None = None
    """Number of its pair, of which `wanted` says its side; an attempt may be in several."""


def chosen_by(sql: str, objective: str, catalog: Catalog) -> list[Chosen]:
    """What a query names; the two sides of a pair one after the other.

    Raises JobError where it fails, or gives what the objective cannot train on.
    """
    found = rows_of(sql, catalog.home, "data.from")
    if not found:
        raise JobError("data.from: the query gives no row")
    if {"chosen", "rejected"} <= found[0].keys():
        return _pairs(found, objective)
    if objective in PAIRS:
        raise JobError(f"data.from: {objective} needs the columns chosen and rejected")
    if "attempt_id" not in found[0]:
        raise JobError(f"data.from: gives {', '.join(found[0])}; it must give attempt_id")
    chosen = [
        Chosen(str(row["attempt_id"]), _weight(row, nth), _label(row, nth))
        for nth, row in enumerate(found, 1)
    ]
    _once(each.attempt_id for each in chosen)
    if objective == LABELLED and any(each.wanted is None for each in chosen):
        raise JobError(f"data.from: {objective} needs the column wanted, true or false in each row")
    return sorted(chosen, key=lambda each: each.attempt_id)


def _pairs(found: Sequence[Mapping[str, Any]], objective: str) -> list[Chosen]:
    if objective not in (*PAIRS, LABELLED):
        raise JobError(
            f"data.from: gives pairs, and {objective} would learn from their rejected sides too; "
            f"name the objective {', '.join(PAIRS)} or {LABELLED}, or give attempt_id"
        )
    pairs = sorted((str(row["chosen"]), str(row["rejected"])) for row in found)
    for better, worse in pairs:
        if better == worse:
            raise JobError(f"data.from: gives {better} as chosen and as rejected of one pair")
    _once(" over ".join(each) for each in pairs)
    return [
        Chosen(name, wanted=wanted, pair=nth)
        for nth, pair in enumerate(pairs)
        for name, wanted in zip(pair, (True, False), strict=True)
    ]


def _once(names: Iterable[str]) -> None:
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise JobError(f"data.from: gives {twice[0]} more than once; it would be learned twice")


def _weight(row: Mapping[str, Any], number: int) -> float:
    given = row.get("weight")
    try:
        weight = 1.0 if given is None else float(given)
    except (TypeError, ValueError):
        weight = math.nan
    if not math.isfinite(weight):
        raise JobError(f"data.from: row {number}: weight {given!r} is no number")
    return weight


def _label(row: Mapping[str, Any], number: int) -> bool | None:
    given = row.get("wanted")
    if given not in (None, True, False):
        raise JobError(f"data.from: row {number}: wanted {given!r} is neither true nor false")
    return None if given is None else bool(given)


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
        flaw = _pair_flaw(better, worse, task_of)
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
    kept = [row for pair in pairs if _turn_count(pair[0]) == _turn_count(pair[1]) for row in pair]
    still = {row["name"] for row in kept}
    reasons.update({row["name"]: TURNS for row in rows if row["name"] not in still})
    return kept


def in_pairs(chosen: Sequence[Chosen]) -> bool:
    """Whether a query gave pairs."""
    return bool(chosen) and chosen[0].pair is not None


def _pair_flaw(
    better: Sequence[dict[str, Any]], worse: Sequence[dict[str, Any]], task_of: Mapping[str, str]
) -> str | None:
    if len(better) != 1 or len(worse) != 1:
        return PARTNER
    same = task_of[better[0]["name"]] == task_of[worse[0]["name"]]
    return None if same else TWO_TASKS


def _turn_count(row: Mapping[str, Any]) -> int:
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
    """The place of each name, and its rows of a statement over `$ids`."""
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        found: dict[str, list[dict[str, Any]]] = {}
        for row in query(sql, home, {"ids": list(some)}):
            found.setdefault(row["attempt_id"], []).append(row)
        yield from ((first + nth, found.get(name, [])) for nth, name in enumerate(some))


def read_sequences(
    names: Sequence[str], ends: frozenset[int], home: Home, reasons: dict[str, str]
) -> Iterator[tuple[int, AttemptSequences]]:
    """The place of each attempt of which ids were recorded, and its sequences.

    `ends` are the ids that end a turn; `reasons` gets the attempts that have nothing to train on.
    """
    for place, calls in rows_by_attempt(CALLS, names, home):
        name = names[place]
        try:
            recorded = recorded_calls(calls)
        except BrokenSpans as error:
            recorded, reasons[name] = None, f"broken spans: {error}"
        if not recorded:
            reasons.setdefault(name, UNRECORDED)
            continue
        found = sequences_of(recorded, ends)
        if not found.sequences:
            reasons[name] = CUT
        yield place, found


def row_of(name: str, sequence: TokenSequence, values: Sequence[float]) -> dict[str, Any]:
    """A sequence as the trainer reads it; `values` [n] are weights or advantages of its ids."""
    return {
        "name": name,
        "ids": sequence.ids,
        "turns": sequence.turns,
        "values": list(values),
        "logprobs": sequence.logprobs,
        "wanted": None,
        "pair": None,
    }


def counts_of(every: Sequence[AttemptSequences]) -> Mapping[str, Any]:
    """Answers that were cut, and sequences that began after the first, by reason."""
    breaks: dict[str, int] = {}
    for each in every:
        for why, n in each.breaks.items():
            breaks[why] = breaks.get(why, 0) + n
    return {"truncated_calls": sum(each.truncated for each in every), "breaks": breaks}
