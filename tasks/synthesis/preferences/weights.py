"""Weights of a preference: their bounds, their drawing, and their splits.

A weight is a multiple of 1/20, and the absolute weights sum to 1, so that rewards of different
vectors are comparable. Accuracy, cost and latency weigh 0 or more; the weight of a tool to avoid is
negative.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

from pydantic import BaseModel, ConfigDict, RootModel

from tutti.errors import UsageError
from tutti.tasks.platform import read_document
from tutti.tasks.synthesis.domains.domain import Split
from tutti.tasks.synthesis.domains.offer import ACCURACY, AIMS, COST, LATENCY
from tutti.tasks.synthesis.programs.base.program import split_of

UNITS = 20
LEAST_UNITS = 2
"""Of a weight that is not 0: less than a tenth changes no reward that one could notice."""
STRONG = 0.2
"""From this size on, an instruction must name what is weighed; accuracy goes without saying."""
TOLERANCE = 1e-6
MOST_TOOLS = 2
"""Tools weighed in one vector: an instruction about more of them reads as a list."""


def weights_reason(weights: Mapping[str, float], offered: Collection[str]) -> str:
    """Return why weights are wrong with these offered tools, or an empty string."""
    for name, weight in weights.items():
        if name not in AIMS and name not in offered:
            return f"weights.{name}: no such tool is offered; there are {', '.join(offered)}"
        if not math.isfinite(weight) or abs(weight) > 1:
            return f"weights.{name}: {weight!r} is not from -1 to 1"
        if name in AIMS and weight < 0:
            why = "cost and latency count less the higher they are; " * (name != ACCURACY)
            return f"weights.{name}: {weight!r} is negative; {why}it must be 0 or more"
    if weights.get(ACCURACY, 0.0) <= 0:
        return "weights.accuracy: must be above 0, or a right answer is worth nothing of its own"
    total = sum(abs(weight) for weight in weights.values())
    if abs(total - 1) > TOLERANCE:
        return f"weights: their sizes sum to {total:.3f}, not to 1"
    return ""


def draw_weights(
    rng: Random, preferred: Sequence[str], avoidable: Sequence[str]
) -> dict[str, float]:
    """Return weights that `weights_reason` accepts: above 0 for tools of `preferred`, below 0 for
    `avoidable`; both may have the same tool."""
    signs = {ACCURACY: 1}
    signs |= {aim: 1 for aim in (COST, LATENCY) if rng.random() < 0.7}
    for _ in range(rng.randint(0, MOST_TOOLS)):
        sign, tools = rng.choice([(1, preferred), (-1, avoidable)])
        left = [tool for tool in tools if tool not in signs]
        if left:
            signs[rng.choice(left)] = sign
    units = dict.fromkeys(signs, LEAST_UNITS)
    names = list(signs)
    for _ in range(UNITS - LEAST_UNITS * len(names)):
        units[rng.choice(names)] += 1
    return {name: signs[name] * units[name] / UNITS for name in names}


def weights_split(weights: Mapping[str, float]) -> str:
    """Return the split of a vector, by its values without tool names, so that the same preference
    over other tools is in the same split."""
    return split_of(f"weights {shape_of(weights)}")


def shape_of(weights: Mapping[str, float]) -> str:
    """Return a vector without the names of tools: two of one shape are the same preference."""
    aims = [f"{weights.get(aim, 0.0):.3f}" for aim in AIMS]
    tools = sorted(f"{w:.3f}" for name, w in weights.items() if name not in AIMS and w)
    return " ".join([*aims, "tools", *tools])


FILE = Path(__file__).with_name("wordings.yaml")


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _AimPhrases(_Frozen):
    more: str
    most: str
    none: str = ""


class _ToolPhrases(_Frozen):
    more: str
    less: str


class Wording(_Frozen):
    """A style of phrasing instructions."""

    split: Split
    cost: _AimPhrases
    latency: _AimPhrases
    accuracy: _AimPhrases
    tool: _ToolPhrases


@cache
def read_wordings(file: Path = FILE) -> Mapping[str, Wording]:
    """Return the wordings of a file by name. Raises UsageError with file, line and field."""
    return read_document(file, UsageError).check(RootModel[dict[str, Wording]]).root


def render(wording: Wording, weights: Mapping[str, float], rng: Random) -> str:
    """Return the instruction, in a random order. It names everything with a weight; it may also
    name aims without one, and the aim with the largest weight."""
    phrases = [
        (wording.tool.more if weight > 0 else wording.tool.less).format(tool=f"`{name}`")
        for name, weight in weights.items()
        if weight and name not in AIMS
    ]
    phrases += filter(None, (_aim_phrase(wording, aim, weights, rng) for aim in AIMS))
    rng.shuffle(phrases)
    return "".join(each if each.endswith("\n") else each + " " for each in phrases).strip()


def _aim_phrase(wording: Wording, aim: str, weights: Mapping[str, float], rng: Random) -> str:
    phrases = {COST: wording.cost, LATENCY: wording.latency, ACCURACY: wording.accuracy}[aim]
    weight = weights.get(aim, 0.0)
    others = max(weights.get(other, 0.0) for other in AIMS if other != aim)
    is_named = rng.random() < 0.5
    if not weight:
        return phrases.none if is_named else ""
    return phrases.most if weight > others and is_named else phrases.more
