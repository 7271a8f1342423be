"""Attempts as sequences of recorded ids, read from the store some attempts at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tutti.storage import BrokenSpans, Home, query
from tutti.tasks.training.sets.sequences import (
    AttemptSequences,
    TokenSequence,
    recorded_calls,
    sequences_of,
)

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
