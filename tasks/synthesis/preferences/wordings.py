"""Instructions from weights: a wording's phrases for what the weights say.

In: weights, a wording of `wordings.yaml` (which one can edit), a random stream. Out: an
instruction.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random

from pydantic import BaseModel, ConfigDict, RootModel

from tutti.errors import UsageError
from tutti.tasks.config import read_document
from tutti.tasks.synthesis.domains.domain import Split
from tutti.tasks.synthesis.domains.offer import ACCURACY, AIMS, COST, LATENCY
from tutti.tasks.synthesis.preferences.checker import Sense

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
    """One way of speaking."""

    split: Split
    cost: _AimPhrases
    latency: _AimPhrases
    accuracy: _AimPhrases
    tool: _ToolPhrases


class _Wordings(RootModel[dict[str, Wording]]):
    pass


@cache
def read_wordings(file: Path = FILE) -> Mapping[str, Wording]:
    """The wordings of a file by name. Raises UsageError with file, line and field."""
    return read_document(file, UsageError).check(_Wordings).root


def render(wording: Wording, weights: Mapping[str, float], rng: Random) -> str:
    """The instruction: all that weighs something is said, in a drawn order; that an aim weighs
    nothing, or more than the others, is said or not."""
    phrases = [_tool_phrase(wording, name, w) for name, w in weights.items() if name not in AIMS]
    phrases += [_aim_phrase(wording, aim, weights, rng) for aim in AIMS]
    said = [each for each in phrases if each]
    rng.shuffle(said)
    return "".join(each if each.endswith("\n") else each + " " for each in said).strip()


def _tool_phrase(wording: Wording, tool: str, weight: float) -> str:
    if not weight:
        return ""
    phrase = wording.tool.more if weight > 0 else wording.tool.less
    return phrase.format(tool=f"`{tool}`")


def _aim_phrase(wording: Wording, aim: str, weights: Mapping[str, float], rng: Random) -> str:
    phrases = {COST: wording.cost, LATENCY: wording.latency, ACCURACY: wording.accuracy}[aim]
    weight = weights.get(aim, 0.0)
    others = max(weights.get(other, 0.0) for other in AIMS if other != aim)
    is_said = rng.random() < 0.5
    if not weight:
        return phrases.none if is_said else ""
    sense = Sense.MOST if weight > others and is_said else Sense.MORE
    return phrases.most if sense is Sense.MOST else phrases.more
