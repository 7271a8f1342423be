"""The environment's final state. Target: ``{"state": {...}, "ignore": ["/last_login"]}``.

Equal means the same JSON value (`json_values`). `ignore` lists JSON pointers that are not compared,
such as clocks and random ids. With ``"only": true``, only the keys of the target's state are
compared.
"""

import copy
from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.json_values import first_difference
from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import needed


class State:
    """Compares the environment's final state with the expected one."""

    name: str = "state"
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
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
