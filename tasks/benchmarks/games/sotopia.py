"""Sotopia: two people with goals of their own talk; a judge rates one of them in seven dimensions.

In: a folder with the files of Sotopia's own programs. Out: two tasks per combination, one for each
seat: the agent plays one person, the user's model the other. The score is the reference's, the
plain mean of seven ratings in ranges of their own (-4.29 to 5.71).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tutti.tasks.agents.models import ChatModel
from tutti.tasks.benchmarks.errors import SourceMissing
from tutti.tasks.benchmarks.rows import Row, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.user import BEGIN, DONE, SimulatedUser
from tutti.tasks.benchmarks.world import PlainWorld
from tutti.tasks.task_sets import Task

AGENTS, ENVIRONMENTS = "agent_profiles.jsonl", "environment_profiles.jsonl"
MAX_WORDS = 20  # messages of both together, as in the reference
STANDINGS = ("strangers", "known by name", "acquaintances", "friends", "partners", "family")
BY_NAME, ACQUAINTED, FRIENDS = 1, 2, 3  # positions in STANDINGS
DIMENSIONS: Mapping[str, tuple[int, int, str]] = {
    "believability": (0, 10, "is natural and true to the person's character"),
    "relationship": (-5, 5, "leaves the relationship worse or better than it was"),
    "knowledge": (0, 10, "learns something new that matters"),
    "secret": (-10, 0, "keeps what the person wants kept; 0 where nothing is given away"),
    "social_rules": (-10, 0, "keeps to laws and customs; 0 where none is broken"),
    "financial_and_material_benefits": (-5, 5, "loses or gains money or goods"),
    "goal": (0, 10, "reaches the person's goal"),
}
"""Range of each dimension, and what is rated."""
_TAG = re.compile(r"</?(?:extra_info|clarification_hint|strategy_hint)>")
_RULES = (
    f" Stay in your part, say one thing at a time, in a sentence or two. To leave, say {DONE} and"
    " nothing else."
)


@dataclass(frozen=True)
class Person:
    """One profile."""

    name: str
    public: str
    """Age, occupation and what everybody may know."""
    character: str
    secret: str

    def known_to(self, standing: int) -> str:
        """The profile as known to another person with this relationship."""
        if standing < BY_NAME:
            return "You do not know the other person."
        parts = [f"The other person is {self.name}."]
        parts += [self.public] if standing >= ACQUAINTED else []
        parts += [self.character] if standing >= FRIENDS else []
        return " ".join(filter(None, parts))

    @property
    def all(self) -> str:
        """The complete profile."""
        secret = f"Secret: {self.secret}" if self.secret else ""
        return " ".join(filter(None, [f"{self.name}.", self.public, self.character, secret]))


def read(files: Files) -> Iterator[Task]:
    """Two tasks per combination. Raises BadRow, SourceMissing."""
    for name in (AGENTS, ENVIRONMENTS):
        if not (files.root / name).is_file():
            raise SourceMissing(f"{files.root / name} does not exist")
    people = {row.name("pk"): _person(row) for row in read_rows(files.root / AGENTS)}
    scenes = {row.name("pk"): row for row in read_rows(files.root / ENVIRONMENTS)}
    for row in files.rows():
        scene = scenes.get(row.name("env_id"))
        if scene is None:
            row.bad("env_id", f"no such environment in {ENVIRONMENTS}")
        ids = row.texts("agent_ids")
        if len(ids) != 2 or not set(ids) <= people.keys():
            row.bad("agent_ids", f"not two of {AGENTS}")
        for seat in (0, 1):
            yield _task(row, scene, (people[ids[0]], people[ids[1]]), seat)


def _person(row: Row) -> Person:
    age = f"{row.whole('age')} years old." if row.name_of("age") else ""
    style = row.text_or("", "decision_making_style")
    character = [row.text_or("", "personality_and_values"), style]
    public = [age, row.text_or("", "occupation"), row.text_or("", "gender_pronoun")]
    public.append(row.text_or("", "public_info"))
    return Person(
        f"{row.text('first_name')} {row.text('last_name')}",
        " ".join(part.strip() for part in public if part.strip()),
        " ".join(part.strip() for part in character if part.strip()),
        row.text_or("", "secret").strip(),
    )


def _task(row: Row, scene: Row, people: tuple[Person, Person], seat: int) -> Task:
    goals = [_TAG.sub(" ", goal).strip() for goal in scene.texts("agent_goals")]
    standing = scene.whole("relationship")
    if len(goals) != 2:
        scene.bad("agent_goals", "not two goals")
    if standing not in range(len(STANDINGS)):
        scene.bad("relationship", f"{standing} is not 0 to {len(STANDINGS) - 1}")
    parts = [
        f"{scene.text('scenario')}\n\nYou are {people[place].all}\n\nYou and the other are"
        f" {STANDINGS[standing]}. {people[1 - place].known_to(standing)}\n\nYour goal:"
        f" {goals[place]}\nThe other's goal is not known to you.\n\n{_RULES.strip()}"
        for place in (0, 1)
    ]
    asked = (
        f"{scene.text('scenario')}\n\nTwo people, {STANDINGS[standing]}, talk. Judged is the one"
        f" who is called assistant: {people[seat].all} Goal: {goals[seat]}\n\nThe other, called"
        f" user: {people[1 - seat].all} Goal: {goals[1 - seat]}"
    )
    criteria = [
        {"text": f"{name}: {what}", "range": [lowest, highest]}
        for name, (lowest, highest, what) in DIMENSIONS.items()
    ]
    target = {"question": asked, "criteria": criteria, "whole": True}
    return Task(
        key=f"{row.name('pk')}/{seat}",
        inputs={"part": parts[seat]},
        target=target | {"partner": parts[1 - seat], "seat": seat},
        attributes={
            "environment": row.name("env_id"),
            "seat": str(seat),
            "standing": STANDINGS[standing],
        },
    )


class Conversation(PlainWorld):
    """One attempt: the other person is played by a model."""

    def __init__(self, task: Task, user: ChatModel | None) -> None:
        """Raises BenchmarkError without a model."""
        self._partner = SimulatedUser(user, task.target["partner"])
        self._first = task.target["seat"] == 0
        self._words = 0

    async def begin(self) -> str | None:
        if self._first:
            return BEGIN
        self._words += 1
        return await self._partner.say(None)

    async def reply(self, said: str) -> str | None:
        self._words += 1
        if DONE in said or self._words >= MAX_WORDS:
            return None
        self._words += 1
        return await self._partner.say(said if said.strip() else "(says nothing)")

    def over(self) -> bool:
        return self._partner.done
