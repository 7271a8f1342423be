"""Compares the attempt's tool calls with the expected ones, by structure.

Target: ``{"calls": [{"name": "book", "arguments": {"seats": 2}}], "ordered": false, "extra":
"wrong"}``; with ``"allowed"`` calls beyond the expected ones do not matter. Arguments are compared
as JSON values. For data with several right values, a call has ``"accepted": {argument: [values
…]}`` instead of ``arguments``, and ``"optional": [argument, …]``. Calls are matched one to one, by
a maximum matching.

Value: matched / max(expected, made), or matched / expected if extra calls are allowed; 1.0 if none
was expected and none made. Correct: the value is 1.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tutti.tasks.scoring.rules.score import Score, Scorer, ScorerFailed, Submission, Target, needed
from tutti.tasks.scoring.rules.state import same


class Call(NamedTuple):
    """One call; `arguments` is None if they could not be parsed."""

    name: str
    arguments: dict[str, Any] | None
    written: str


def calls_made(messages: Sequence[Mapping[str, Any]]) -> list[Call]:
    assistant = (message for message in messages if message.get("role") == "assistant")
    return [_call(call) for message in assistant for call in message.get("tool_calls") or ()]


def _call(call: Mapping[str, Any]) -> Call:
    function = call.get("function", call)
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):  # also numbers and nesting beyond Python's limits
            arguments = None
    read = arguments if isinstance(arguments, dict) else None
    return Call(str(function.get("name")), read, str(function.get("arguments"))[:500])


def fits(made: Call, expected: Mapping[str, Any]) -> bool:
    if made.arguments is None or made.name != expected["name"]:
        return False
    if "accepted" not in expected:
        return same(expected.get("arguments", {}), made.arguments)
    accepted, optional = expected["accepted"], expected.get("optional", ())
    known = all(argument in accepted for argument in made.arguments)
    return known and all(
        any(same(value, made.arguments[argument]) for value in values)
        if argument in made.arguments
        else argument in optional
        for argument, values in accepted.items()
    )


def match(
    made: Sequence[Call], expected: Sequence[Mapping[str, Any]], ordered: bool
) -> list[tuple[int, int]]:
    """A maximum set of pairs (index made, index expected), each index used at most once."""
    table = [[fits(call, wanted) for wanted in expected] for call in made]
    return in_order(table, len(expected)) if ordered else _in_any_order(table, len(expected))


def in_order(table: Sequence[Sequence[bool]], width: int) -> list[tuple[int, int]]:
    """The pairs of a longest common subsequence."""
    best = [[0] * (width + 1) for _ in range(len(table) + 1)]
    for i in reversed(range(len(table))):
        for j in reversed(range(width)):
            longer = max(best[i + 1][j], best[i][j + 1])
            best[i][j] = max(longer, best[i + 1][j + 1] + 1) if table[i][j] else longer
    pairs, i, j = [], 0, 0
    while i < len(table) and j < width:
        if table[i][j] and best[i][j] == best[i + 1][j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _in_any_order(table: Sequence[Sequence[bool]], width: int) -> list[tuple[int, int]]:
    # Augmenting paths (Kuhn): a call takes an expected one, and the previous holder finds another.
    holder: dict[int, int] = {}

    def place(i: int, tried: set[int]) -> bool:
        for j in range(width):
            if table[i][j] and j not in tried:
                tried.add(j)
                if j not in holder or place(holder[j], tried):
                    holder[j] = i
                    return True
        return False

    for i in range(len(table)):
        place(i, set())
    return sorted((i, j) for j, i in holder.items())


class ToolCalls(Scorer):
    """Checks that the attempt made the expected calls."""

    name = "tool_calls"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        expected = needed(target, "calls", list)
        if not all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in expected):
            raise ScorerFailed("tool_calls: each expected call needs a name")
        extra = target.get("extra", "wrong")
        if extra not in ("wrong", "allowed"):
            raise ScorerFailed(f"tool_calls: extra is {extra!r}, not 'wrong' or 'allowed'")
        made = calls_made(submission.conversation)
        pairs = match(made, expected, bool(target.get("ordered", False)))
        of = max(len(expected), len(made)) if extra == "wrong" else len(expected)
        value = len(pairs) / of if of else 1.0
        places_made, places_expected = {i for i, _ in pairs}, {j for _, j in pairs}
        beyond = [call for i, call in enumerate(made) if i not in places_made]
        detail = {
            "precision": len(pairs) / len(made) if made else 1.0,
            "recall": len(pairs) / len(expected) if expected else 1.0,
            "missed": [call["name"] for j, call in enumerate(expected) if j not in places_expected],
            "beyond": [{"name": call.name, "arguments": call.written} for call in beyond],
            "unreadable": sum(call.arguments is None for call in made),
        }
        return self.result(value == 1.0, value, detail=detail)
