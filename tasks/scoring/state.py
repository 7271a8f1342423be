"""Scorers of an environment's final state or reward, of a dialogue, and of a harness's own score.

`first_difference` compares JSON values: the order of keys is ignored, 1 equals 1.0, true does not
equal 1.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.scoring.score import (
    Score,
    Scorer,
    ScorerFailed,
    Submission,
    Target,
    conversation,
    needed,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON value."""
    return first_difference(one, other) is None


def first_difference(expected: Any, actual: Any, path: str = "") -> dict[str, Any] | None:
    """Where two JSON values first differ, keys in sorted order; None if they are equal.

    ``{"path": JSON pointer, "expected": …, "actual": …, "kind": "value", "missing" or "extra"}``.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return _in_objects(expected, actual, path)
    if _is_list(expected) and _is_list(actual):
        return _in_lists(expected, actual, path)
    if _is_number(expected) and _is_number(actual):
        equal = expected == actual
    else:
        equal = type(expected) is type(actual) and expected == actual
    return None if equal else _difference(path, "value", expected, actual)


def _in_objects(
    expected: Mapping[str, Any], actual: Mapping[str, Any], path: str
) -> dict[str, Any] | None:
    for key in sorted(expected.keys() | actual.keys(), key=str):
        inner = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if key not in actual:
            return _difference(inner, "missing", expected[key], None)
        if key not in expected:
            return _difference(inner, "extra", None, actual[key])
        found = first_difference(expected[key], actual[key], inner)
        if found:
            return found
    return None


def _in_lists(expected: Sequence[Any], actual: Sequence[Any], path: str) -> dict[str, Any] | None:
    for place, (one, other) in enumerate(zip(expected, actual, strict=False)):
        found = first_difference(one, other, f"{path}/{place}")
        if found:
            return found
    if len(expected) > len(actual):
        return _difference(f"{path}/{len(actual)}", "missing", expected[len(actual)], None)
    if len(actual) > len(expected):
        return _difference(f"{path}/{len(expected)}", "extra", None, actual[len(expected)])
    return None


def _difference(path: str, kind: str, expected: Any, actual: Any) -> dict[str, Any]:
    return {"path": path or "/", "kind": kind, "expected": expected, "actual": actual}


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class State(Scorer):
    """Compares the environment's final state with the expected one.

    Target: ``{"state": {...}, "ignore": ["/last_login"]}``. Equal means the same JSON value.
    `ignore` lists JSON pointers that are not compared, such as clocks and random ids. With
    ``"only": true``, only the keys of the target's state are compared.
    """

    name = "state"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """Right if the states are equal; the detail has the path of the first difference.

        Raises ScorerFailed if the attempt has no state.
        """
        expected: Any = needed(target, "state", dict)
        if submission.state is None:
            raise ScorerFailed("state: the attempt carries no final state")
        actual: Any = dict(submission.state)
        if target.get("only"):
            actual = {key: value for key, value in actual.items() if key in expected}
        for pointer in target.get("ignore", ()):
            expected, actual = (without(value, pointer) for value in (expected, actual))
        difference = first_difference(expected, actual)
        detail = {"first_difference": difference}
        correct = difference is None
        return Score(self.name, self.version, float(correct), correct, detail=detail)


def without(value: Any, pointer: str) -> Any:
    """`value` without the part that the JSON pointer names; unchanged if there is no such part."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    if not keys:
        raise ScorerFailed(f"state: {pointer!r} is not a JSON pointer to a part of the state")
    changed = copy.deepcopy(value)
    inner = changed
    for key in keys[:-1]:
        inner = _inside(inner, key)
    if isinstance(inner, dict):
        inner.pop(keys[-1], None)
    return changed


def _inside(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    return None


class Dialogue(Scorer):
    """Compares the final state, and looks for what had to be said.

    Target: ``{"state": {"db": HASH}, "communicate": [...]}``. The headline is 1 if the attempt's
    final state equals ``state`` and every text of ``communicate`` was said, else 0. tau2-bench's
    rule (its reward basis DB and COMMUNICATE): a text counts as said if it is, lower-cased, part of
    one message of the agent, lower-cased and without commas. Commas in the text itself are left out
    too: there a text with a comma could never count. The detail has both parts and what was not
    said.
    """

    name = "dialogue"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """Right if the database is as expected and all was said. Raises ScorerFailed if the
        attempt has no state."""
        expected: dict[str, Any] = needed(target, "state", dict)
        wanted: list[Any] = needed(target, "communicate", list)
        if submission.state is None:
            raise ScorerFailed("dialogue: the attempt carries no final state")
        said = [_plain(text) for text in _texts(submission)]
        missing = [each for each in wanted if not any(_plain(each) in text for text in said)]
        db, communicate = dict(submission.state) == expected, not missing
        correct = db and communicate
        detail = {"db": float(db), "communicate": float(communicate), "not_said": missing}
        return Score(self.name, self.version, float(correct), correct, detail=detail)


def _texts(submission: Submission) -> list[str]:
    """The agent's messages with text."""
    spoken = (m.get("content") for m in conversation(submission) if m["role"] == "assistant")
    return [text for text in spoken if isinstance(text, str) and text]


def _plain(text: str) -> str:
    return text.lower().replace(",", "")


class Reward(Scorer):
    """Takes the environment's own reward, such as the points of a game.

    Target: ``{"pass": 1.0}``. The attempt's final state has ``reward``, 0 to 1; this is the value,
    and the attempt is correct if it is at least ``pass``. Finishing alone earns nothing.
    """

    name = "reward"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """The reward; the detail has the rest of the final state.

        Raises ScorerFailed if the attempt has no reward, or one outside 0 to 1.
        """
        state = dict(submission.state or {})
        value = state.pop("reward", None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ScorerFailed("reward: the attempt's final state has no reward")
        if not (math.isfinite(value) and 0.0 <= value <= 1.0):
            raise ScorerFailed(f"reward: {value} is not between 0 and 1")
        correct = value >= float(target.get("pass", 1.0))
        return Score(self.name, self.version, float(value), correct, detail=state)


class ImportedScore(Scorer):
    """Takes the harness's own score of an attempt, for tasks that only the harness can score.

    The harness's score is always a row of `scores` under its own name; with this scorer it is the
    attempt's score too. A stored sweep cannot be scored again with it, because the score comes only
    with the attempt.
    """

    name = "imported"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """The score that came with the attempt. Raises ScorerFailed if there is none."""
        if submission.imported is None:
            raise ScorerFailed("the harness that made the attempt gave no score with it")
        return submission.imported
