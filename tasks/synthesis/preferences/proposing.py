"""Preferences by a teacher: one model proposes pairs, a second one checks each.

The rule checks first, because it is free; a rejected pair is sent back once with the reason.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tutti.storage import content_hash
from tutti.tasks.synthesis.domains import Domain
from tutti.tasks.synthesis.domains.offer import Preference
from tutti.tasks.synthesis.preferences.checker import preference_reason
from tutti.tasks.synthesis.preferences.gates import weighable
from tutti.tasks.synthesis.teacher import (
    ItemsQuestion,
    Question,
    Teacher,
    TeacherFailed,
    ask_items,
    read_prompts,
)

PROMPTS = Path(__file__).with_name("prompts")
RULE, SECOND_MODEL = "preference", "second_model"
BY_TEACHER = "teacher"
Reject = tuple[str, str, str]
"""(gate, what was proposed, reason)"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Weight(_Strict):
    """One weight of a vector."""

    name: str
    weight: float


class Pair(_Strict):
    """An instruction and its weights, from a teacher's answer."""

    instruction: str
    weights: tuple[Weight, ...]

    @property
    def preference(self) -> Preference:
        """Return the pair as a preference of a task."""
        weights = {each.name: each.weight for each in self.weights if each.weight}
        return Preference(instruction=self.instruction, weights=weights, wording=BY_TEACHER)


class Agreement(_Strict):
    """The second model's answer."""

    agrees: bool
    reason: str


Proposed = tuple[Sequence[Preference], Sequence[Reject]]
"""The pairs that are kept, and the others."""


def pair_reason(pair: Pair, existing: Sequence[Pair], offered: Sequence[str]) -> str:
    """Return why a proposed pair is wrong by rule, or an empty string."""
    names = [each.name for each in pair.weights]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"weights.{twice}: is given twice"
    if any(each.instruction == pair.instruction for each in existing):
        return "instruction: it exists already"
    return preference_reason(pair.preference, offered)


async def ask_preferences(
    proposer: Teacher, checker: Teacher, domain: Domain, count: int
) -> Proposed:
    """`count` pairs, or fewer if the teacher has no more. Raises TeacherFailed, BudgetSpent."""
    prompts = read_prompts(PROMPTS)
    offered = weighable([each.name for each in domain.tools])
    tools = "\n".join(f"- `{each.name}`: {each.about}" for each in domain.tools)

    def render(existing: Sequence[Pair], missing: int) -> str:
        known = "\n".join(each.instruction for each in existing) or "none"
        return prompts["propose"].render(tools=tools, count=str(missing), existing=known)

    def check(pair: Pair, existing: Sequence[Pair]) -> str:
        return pair_reason(pair, existing, offered)

    found = await ask_items(proposer, ItemsQuestion("preferences", render, Pair, count, check))
    rejects = [(RULE, _shown(raw), why) for raw, why in found.rejects]
    kept, refused = await _second(checker, [each.preference for each in found.kept])
    return kept, [*rejects, *refused]


async def _second(
    checker: Teacher, proposed: Sequence[Preference]
) -> tuple[list[Preference], list[Reject]]:
    """Return the pairs that the second model accepts, and those that it rejects. Raises
    TeacherFailed, BudgetSpent if a question has no answer: an unchecked pair is not used."""
    prompt = read_prompts(PROMPTS)["check"]
    questions = [
        Question(
            f"agreement-{content_hash(each.model_dump())[:12]}",
            prompt.render(
                instruction=each.instruction, weights=json.dumps(each.weights, sort_keys=True)
            ),
            Agreement,
            max_tokens=512,
        )
        for each in proposed
    ]
    kept: list[Preference] = []
    refused: list[Reject] = []
    for each, outcome in zip(proposed, await checker.ask_all(questions), strict=True):
        if isinstance(outcome, TeacherFailed):
            raise outcome
        if outcome.agrees:
            kept.append(each)
        else:
            refused.append((SECOND_MODEL, _shown(each.model_dump()), outcome.reason))
    return kept, refused


def prompt_lineage() -> list[dict[str, str]]:
    """Return name, version and hash of the prompts."""
    return [each.lineage for each in read_prompts(PROMPTS).values()]


def _shown(raw: Any) -> str:
    return raw if isinstance(raw, str) else json.dumps(raw, sort_keys=True)
