"""Answers to score by two programs: the gold one, and gold ones with one thing changed.

Calls are in tutti's form, ``{"name": …, "arguments": {…}}``. The same task gives the same answers.
"""

import random
from collections.abc import Mapping
from typing import Any

Call = dict[str, Any]
KINDS = ("gold", "changed", "lower", "without", "added", "extra", "name", "none")


def perturbed(calls: list[Call], kind: str, seed: str) -> list[Call]:
    """The gold calls with one change of `kind`; unchanged if they have nothing to change."""
    rng, made = random.Random(seed), [_copy(call) for call in calls]
    if kind == "none":
        return []
    if kind == "extra":
        return [*made, *(_copy(call) for call in calls[-1:])]
    if kind == "gold" or not made:
        return made
    call = made[rng.randrange(len(made))]
    arguments = call["arguments"]
    if kind == "name":
        call["name"] += "X"
    elif kind == "added":
        arguments["surplus"] = "1"
    elif kind == "lower":
        call["arguments"] = {name: _lower(value) for name, value in arguments.items()}
    elif arguments:
        name = rng.choice(sorted(arguments))
        if kind == "without":
            del arguments[name]
        else:
            arguments[name] = changed(arguments[name])
    return made


def _copy(call: Mapping[str, Any]) -> Call:
    return {"name": call["name"], "arguments": dict(call["arguments"])}


def _lower(value: Any) -> Any:
    if isinstance(value, str):
        return value.lower()
    if isinstance(value, list):
        return [_lower(each) for each in value]
    return value


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return [*value, *value[:1]] if value else ["more"]
    if isinstance(value, dict):
        return {**value, "surplus": 1}
    return f"please {value}"
