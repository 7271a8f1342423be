"""Instructions from weights, with the phrases of a wording of `wordings.yaml`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random

from pydantic import BaseModel, ConfigDict, RootModel

from tutti.errors import UsageError
from tutti.tasks.platform import read_document
from tutti.tasks.synthesis.domains.domain import Split
from tutti.tasks.synthesis.domains.offer import ACCURACY, AIMS, COST, LATENCY

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
