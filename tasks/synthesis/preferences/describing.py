"""Descriptions of a profile by a teacher, checked against the measurements.

In: a profile and a teacher. Out: the profile with the teacher's texts. A text whose numbers the
measurements do not have is sent back once; after that the rule's text stays.
"""

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tutti.storage import content_hash
from tutti.tasks.synthesis.preferences.profile import Profile, Subject
from tutti.tasks.synthesis.preferences.proposing import PROMPTS
from tutti.tasks.synthesis.teacher import BudgetedRequest, Question, Teacher, read_prompts

MOST_CHARS = 500
NUMBER = re.compile(r"\d+(?:[.,]\d+)?")


class ProfileRequest(BudgetedRequest):
    """The parameters of a profile."""

    folder: Path
    """Where its files are written."""
    task_set: str = ""
    """Whose attempts are read; empty: all of the store."""
    agent: str = ""
    """The agent file whose experts are described."""
    teacher: str = ""
    """Who writes the texts; empty: the rule."""


class Description(BaseModel):
    """What the teacher writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str


def description_reason(text: str, measured: str) -> str:
    """Why a text is wrong; empty if it is right."""
    if not text.strip() or len(text) > MOST_CHARS:
        return f"text: {len(text)} characters; must be 1 to {MOST_CHARS}"
    known = set(NUMBER.findall(measured))
    invented = next((each for each in NUMBER.findall(text) if each not in known), None)
    return "" if invented is None else f"text: {invented} is in no measurement"


async def describe_profile(profile: Profile, teacher: Teacher) -> tuple[Profile, dict[str, str]]:
    """The profile with the teacher's texts, and why others kept the rule's, by subject. Raises
    BudgetSpent."""
    prompt = read_prompts(PROMPTS)["describe"]
    questions = []
    for each in profile.subjects:
        measured = _shown(each)

        async def check(answer: Description, measured: str = measured) -> str:
            return description_reason(answer.text, measured)

        text = prompt.render(kind=f"{each.kind}s", name=each.name, measured=measured)
        name = f"describe-{each.kind}-{content_hash(each.name)[:8]}"
        questions.append(Question(name, text, Description, check, max_tokens=512))
    subjects, kept = [], {}
    for each, outcome in zip(profile.subjects, await teacher.ask_all(questions), strict=True):
        if outcome.stopped is not None:
            raise outcome.stopped
        if outcome.value is None:
            kept[f"{each.kind} {each.name}"] = str(outcome.failed)
            subjects.append(each)
        else:
            subjects.append(each.model_copy(update={"text": outcome.value.text}))
    return profile.model_copy(update={"subjects": tuple(subjects)}), kept


def _shown(subject: Subject) -> str:
    """The rule's text, which has the figures, and each kind of task."""
    rows = [
        f"{rate.kind}: {rate.right} of {rate.attempts} attempts at {rate.tasks} tasks right"
        + (f", {rate.low:.0%} to {rate.high:.0%}" if None not in (rate.low, rate.high) else "")
        for rate in (subject.all, *subject.by_kind)
    ]
    return "\n".join([subject.text, *rows])
