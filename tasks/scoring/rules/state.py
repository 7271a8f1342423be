"""Scorers of an environment's final state or reward, a dialogue, and a harness's own score."""

import copy
import math
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from tutti.tasks.scoring.rules.score import Score, Scorer, ScorerFailed, Submission, Target, needed

_ABSENT = object()


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON value: 1 equals 1.0, true does not equal 1."""
    return first_difference(one, other) is None


def first_difference(expected: Any, actual: Any, path: str = "") -> dict[str, Any] | None:
    """Return where two JSON values first differ, keys in sorted order; None if they are equal.

    ``{"path": JSON pointer, "expected": …, "actual": …, "kind": "value", "missing" or "extra"}``.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        keys = sorted(expected.keys() | actual.keys(), key=str)
        pairs = [(key, expected.get(key, _ABSENT), actual.get(key, _ABSENT)) for key in keys]
    elif _is_list(expected) and _is_list(actual):
        both = zip_longest(expected, actual, fillvalue=_ABSENT)
        pairs = [(place, *pair) for place, pair in enumerate(both)]
    else:
        if _is_number(expected) and _is_number(actual):
            equal = expected == actual
        else:
            equal = type(expected) is type(actual) and expected == actual
        difference = {"path": path or "/", "kind": "value", "expected": expected, "actual": actual}
        return None if equal else difference
    for key, one, other in pairs:
        inner = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if other is _ABSENT:
            return {"path": inner, "kind": "missing", "expected": one, "actual": None}
        if one is _ABSENT:
            return {"path": inner, "kind": "extra", "expected": None, "actual": other}
        if found := first_difference(one, other, inner):
            return found
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class State(Scorer):
    """Compares the environment's final state with the expected one.

    Target: ``{"state": {...}, "ignore": ["/last_login"]}``. `ignore` lists JSON pointers that are
    not compared. With ``"only": true``, only the keys of the target's state are compared.
    """

    name = "state"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        expected: Any = needed(target, "state", dict)
        actual: Any = _final_state(self, submission)
        if target.get("only"):
            actual = {key: value for key, value in actual.items() if key in expected}
        for pointer in target.get("ignore", ()):
            expected, actual = (_without(value, pointer) for value in (expected, actual))
        difference = first_difference(expected, actual)
        return self.result(difference is None, detail={"first_difference": difference})


def _final_state(scorer: Scorer, submission: Submission) -> dict[str, Any]:
    if submission.state is None:
        raise ScorerFailed(f"{scorer.name}: the attempt carries no final state")
    return dict(submission.state)


def _without(value: Any, pointer: str) -> Any:
    """`value` without the part that the JSON pointer names; unchanged if there is no such part."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    if not keys:
        raise ScorerFailed(f"state: {pointer!r} is not a JSON pointer to a part of the state")
    changed = copy.deepcopy(value)
    inner = changed
    for key in keys[:-1]:
        if isinstance(inner, list) and key.isdecimal() and int(key) < len(inner):
            inner = inner[int(key)]
        else:
            inner = inner.get(key) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(keys[-1], None)
    return changed


class Dialogue(Scorer):
    """Compares the final state, and checks that the agent said the required texts.

    Target: ``{"state": {"db": HASH}, "communicate": [...]}``. tau2-bench's rule (its reward basis
    DB and COMMUNICATE): a text counts if it is, lower-cased, part of one message of the agent,
    lower-cased and without commas. Commas in the text itself are left out too: there a text with a
    comma could never count.
    """

    name = "dialogue"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        expected: dict[str, Any] = needed(target, "state", dict)
        wanted: list[Any] = needed(target, "communicate", list)
        db = _final_state(self, submission) == expected
        spoken = [m.get("content") for m in submission.conversation if m["role"] == "assistant"]
        plain = [_plain(text) for text in spoken if isinstance(text, str) and text]
        missing = [each for each in wanted if not any(_plain(each) in text for text in plain)]
        detail = {"db": float(db), "communicate": float(not missing), "not_said": missing}
        return self.result(db and not missing, detail=detail)


def _plain(text: str) -> str:
    return text.lower().replace(",", "")


class Reward(Scorer):
    """Takes the environment's own reward, such as the points of a game.

    Target: ``{"pass": 1.0}``. The value is ``reward`` of the final state, 0 to 1; correct: at least
    ``pass``.
    """

    name = "reward"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        state = dict(submission.state or {})
        value = state.pop("reward", None)
        if not _is_number(value):
            raise ScorerFailed("reward: the attempt's final state has no reward")
        if not (math.isfinite(value) and 0.0 <= value <= 1.0):
            raise ScorerFailed(f"reward: {value} is not between 0 and 1")
        return self.result(value >= float(target.get("pass", 1.0)), float(value), detail=state)


class ImportedScore(Scorer):
    """Takes the harness's own score of an attempt, for tasks that only the harness can score.

    A stored sweep cannot be scored again with it, because the score comes only with the attempt.
    """

    name = "imported"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        if submission.imported is None:
            raise ScorerFailed("the harness that made the attempt gave no score with it")
        return submission.imported
