"""Programs whose tasks are what people want of a desk that keeps records of them.

Such a program has a maker of records, templates that yield drafts of intents for a person, a solver
for each, and `intents.yaml` with the words: who people say they are, what they want and ask.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from random import Random
from typing import Any

from tutti.tasks.agents import Oracle
from tutti.tasks.config import read_document
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask
from tutti.tasks.synthesis.domains.domain import Records
from tutti.tasks.synthesis.programs.declared import Content, DeclaredProgram, WrongDeclaration
from tutti.tasks.synthesis.programs.intents import (
    Caller,
    Composer,
    Intent,
    IntentSolver,
    is_plain,
    money,
    solve_intents,
)
from tutti.tasks.synthesis.programs.people import Person, numbers, people
from tutti.tasks.synthesis.programs.program import KNOB, Knobs, Tables, call, use, with_harder

Record = Mapping[str, Any]
FIRST_WAY = 0.4
"""The share of people who are known by the first of the ways in `callers`."""


class CallerWords(Content):
    """A way in which people are found."""

    tool: str
    slots: dict[str, str]
    """The tool's parameters, and the fields of the record that have their values."""
    known: tuple[str, ...]


class IntentWords(Content):
    """The words and rules of a template; what its drafts say stands in braces."""

    rules: str
    """Beside `identify`, which is of every intent."""
    ask: str
    """Which of `asks` ends it."""
    then: str = ""
    """Added to that."""
    known: str = ""
    unknown: str = ""


class Phrases(Content):
    """The content of `intents.yaml`."""

    callers: tuple[CallerWords, CallerWords]
    asks: dict[str, tuple[str, ...]]
    intents: dict[str, IntentWords]
    reasons: dict[str, tuple[str, ...]]
    """Of each intent."""


@dataclass(frozen=True)
class Draft:
    """An intent without its words. It comes to nothing where a fact is no plain amount."""

    actions: Sequence[Action]
    touches: Sequence[str]
    forbidden: Sequence[Action]
    slots: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[float | str] = ()
    """What must be communicated: amounts and texts."""
    says: Mapping[str, str] = field(default_factory=dict)
    """What fills the phrases beside the slots, or instead of them."""
    reason: str = ""
    """Where it is worded already."""
    unknown: str = ""


@dataclass(frozen=True)
class Desk:
    """An instance with the questions that templates have about it."""

    records: Records
    rng: Random
    phrases: Phrases

    def of(self, person: Record, table: str) -> list[Record]:
        """A person's records of a table."""
        return [self.records[table][key] for key in person[table]]

    def say(self, template: str, /, **values: str) -> str:
        """A way to say an intent."""
        said = self.rng.choice(self.phrases.reasons[template]).format(**values)
        return said[0].upper() + said[1:]

    def ask(self, name: str) -> str:
        """A way to ask for a fact."""
        return self.rng.choice(self.phrases.asks[name])

    def intents(self, template: str, drafts: Iterator[Draft]) -> Iterator[Intent]:
        """The intents of a template's drafts."""
        words = self.phrases.intents[template]
        for draft in drafts:
            told = {**draft.slots, **draft.says}
            if not all(isinstance(fact, str) or is_plain(fact) for fact in draft.facts):
                continue
            yield Intent(
                name=template,
                reason=draft.reason or self.say(template, **told),
                actions=tuple(draft.actions),
                touches=frozenset(draft.touches),
                slots=draft.slots,
                rules=("identify", *words.rules.split()),
                forbidden=tuple(draft.forbidden),
                communicate=tuple(f if isinstance(f, str) else money(f) for f in draft.facts),
                known=words.known.format(**told),
                unknown=words.unknown or draft.unknown,
                instructions=f"{self.ask(words.ask)} {words.then}".strip(),
            )


class RecordMaker(ABC):
    """Fills the tables of one instance, all within one day."""

    def __init__(self, rng: Random, knobs: Knobs, keys: Mapping[str, str]) -> None:
        """`keys`: of each table the field that is its key."""
        self.rng, self.knobs, self.keys = rng, knobs, keys
        self.today = date(2026, 1, 10) + timedelta(days=rng.randrange(300))
        self.tables: Tables = {name: {} for name in keys}
        self._numbers = numbers(rng)

    def make(self) -> Tables:
        """All records."""
        self.begin()
        for person in people(self.rng, self.knobs["customers"], self.knobs["distractors"]):
            self.add_person(person)
        return self.tables

    @abstractmethod
    def begin(self) -> None:
        """Add the terms, one record in the first table, and what belongs to nobody."""

    @abstractmethod
    def add_person(self, person: Person) -> None:
        """Add somebody with all that is theirs."""

    def new_key(self, table: str) -> str:
        """An unused key."""
        return f"{table[:2].upper()}-{next(self._numbers)}"

    def add(self, table: str, key: str = "", /, **fields: Any) -> str:
        """Add a record; returns its key, a new one where none is given."""
        key = key or self.new_key(table)
        self.tables[table][key] = {self.keys[table]: key, **fields}
        return key

    def ago(self, days: int) -> str:
        """A day in the past, ISO 8601."""
        return (self.today - timedelta(days=days)).isoformat()

    def money(self, least: float, most: float) -> float:
        """An amount with two digits after the point."""
        return round(self.rng.uniform(least, most), 2)


Template = Callable[[Any, Record], Iterator[Draft]]
"""Of a desk and a person."""


class DeskProgram(DeclaredProgram):
    """A program over records of people."""

    people: str
    """Their table."""
    maker: type[RecordMaker]
    desk: type[Desk]
    intents: Mapping[str, tuple[Template, IntentSolver]]
    """The templates and how each is solved, by the names in `intents.yaml`."""

    @cached_property
    def phrases(self) -> Phrases:
        """What people say. Raises WrongDeclaration."""
        return read_document(self.folder / "intents.yaml", WrongDeclaration).check(Phrases)

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """A desk with terms of its own."""
        keys = {table.name: table.key for table in self.declared.table_specs()}
        records = self.maker(rng, knobs, keys).make()
        (terms,) = records[next(iter(keys))].values()
        return self.domain(knobs, records, self.declared.of_instance(terms))

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """A task for each thing that a person of the instance may want."""
        desk, everyone = self.desk(domain.records, rng, self.phrases), domain.records[self.people]
        intents = {
            key: [
                intent
                for name, (template, _) in self.intents.items()
                for intent in desk.intents(name, template(desk, person))
            ]
            for key, person in everyone.items()
        }

        def caller(key: str, rng: Random) -> Caller:
            return self._caller(f"{self.people}/{key}", everyone[key], rng)

        composer = Composer(domain, rng, knobs, self.held_out, caller)
        return with_harder(composer.tasks(intents), composer.harder, knobs[KNOB], "steps")

    def _caller(self, entity: str, person: Record, rng: Random) -> Caller:
        first, second = self.phrases.callers
        way = first if rng.random() < FIRST_WAY else second
        slots = {name: person[key] for name, key in way.slots.items()}
        known = rng.choice(way.known).format(**person)
        return Caller(entity, known, call(way.tool, **slots), slots)

    def solve(self, task: DomainTask) -> Oracle:
        """Find the person, then solve intent after intent. Raises LookupError."""
        way = next(each for each in self.phrases.callers if each.slots.keys() <= task.slots.keys())
        person = use(way.tool, **{name: task.slots[name] for name in way.slots})
        solvers = {name: solver for name, (_, solver) in self.intents.items()}
        return solve_intents(task, person, solvers)
