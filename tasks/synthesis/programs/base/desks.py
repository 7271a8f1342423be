"""Programs whose tasks are requests of people to a desk that has records of them.

Such a program has a maker of records, templates that yield the intents of a person, a solver for
each template, and `intents.yaml` with the words: identities, requests and questions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from random import Random
from typing import Any

from tutti.tasks.agents import Oracle
from tutti.tasks.platform import read_document
from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.domains.domain import Records
from tutti.tasks.synthesis.programs.base.declared import Content, DeclaredProgram, WrongDeclaration
from tutti.tasks.synthesis.programs.base.intents import (
    Caller,
    Composer,
    Intent,
    IntentSolver,
    is_plain,
    solve_intents,
)
from tutti.tasks.synthesis.programs.base.people import Person, numbers, people
from tutti.tasks.synthesis.programs.base.program import KNOB, Knobs, Tables, call, use, with_harder

Record = Mapping[str, Any]
FIRST_WAY = 0.4
"""The share of people who are identified by the first of `callers`."""


class CallerWords(Content):
    """A way to identify people, with its words."""

    tool: str
    slots: dict[str, str]
    """The tool's parameters, and the fields of the record that have their values."""
    known: tuple[str, ...]


class IntentWords(Content):
    """The words and rules of a template, with names of slots in braces."""

    rules: str
    """Beside `identify`, which every intent has."""
    ask: str
    """The key in `asks` of its last sentence."""
    then: str = ""
    """A sentence after that."""
    known: str = ""
    unknown: str = ""


class Phrases(Content):
    """The content of `intents.yaml`."""

    callers: tuple[CallerWords, CallerWords]
    asks: dict[str, tuple[str, ...]]
    intents: dict[str, IntentWords]
    reasons: dict[str, tuple[str, ...]]
    """By intent."""


@dataclass(frozen=True)
class Desk:
    """An instance, as templates read it."""

    records: Records
    rng: Random
    phrases: Phrases

    def of(self, person: Record, table: str) -> list[Record]:
        """Return a person's records of a table."""
        return [self.records[table][key] for key in person[table]]

    def say(self, template: str, /, **values: str) -> str:
        """Return a random wording of an intent."""
        text = self.rng.choice(self.phrases.reasons[template]).format(**values)
        return text[0].upper() + text[1:]

    def ask(self, name: str) -> str:
        """Return a random wording of a question."""
        return self.rng.choice(self.phrases.asks[name])

    def worded(self, template: str, intents: Iterator[Intent]) -> Iterator[Intent]:
        """Yield a template's intents with their words, except those with a fact that is not a plain
        amount."""
        words = self.phrases.intents[template]
        for intent in intents:
            told = {**intent.slots, **intent.says}
            if all(isinstance(fact, str) or is_plain(fact) for fact in intent.facts):
                yield replace(
                    intent,
                    name=template,
                    reason=intent.reason or self.say(template, **told),
                    rules=("identify", *words.rules.split()),
                    known=words.known.format(**told),
                    unknown=words.unknown or intent.unknown,
                    instructions=f"{self.ask(words.ask)} {words.then}".strip(),
                )


class RecordMaker(ABC):
    """Fills the tables of one instance, all within one day."""

    def __init__(self, rng: Random, knobs: Knobs, keys: Mapping[str, str]) -> None:
        """`keys`: the key field of each table."""
        self.rng, self.knobs, self.keys = rng, knobs, keys
        self.today = date(2026, 1, 10) + timedelta(days=rng.randrange(300))
        self.tables: Tables = {name: {} for name in keys}
        self._numbers = numbers(rng)

    def make(self) -> Tables:
        """Return all records."""
        self.begin()
        for person in people(self.rng, self.knobs["customers"], self.knobs["distractors"]):
            self.add_person(person)
        return self.tables

    @abstractmethod
    def begin(self) -> None:
        """Add the terms, the first table's single record, and the records of no person."""

    @abstractmethod
    def add_person(self, person: Person) -> None:
        """Add a person with all their records."""

    def new_key(self, table: str) -> str:
        """Return an unused key."""
        return f"{table[:2].upper()}-{next(self._numbers)}"

    def add(self, table: str, key: str = "", /, **fields: Any) -> str:
        """Add a record; return its key, a new one if none is given."""
        key = key or self.new_key(table)
        self.tables[table][key] = {self.keys[table]: key, **fields}
        return key

    def ago(self, days: int) -> str:
        """Return a day in the past, ISO 8601."""
        return (self.today - timedelta(days=days)).isoformat()

    def money(self, least: float, most: float) -> float:
        """Return an amount with two decimals."""
        return round(self.rng.uniform(least, most), 2)


Template = Callable[[Any, Record], Iterator[Intent]]
"""Takes a desk and a person."""


class DeskProgram(DeclaredProgram):
    """A program over records of people."""

    people: str
    """Their table."""
    maker: type[RecordMaker]
    desk: type[Desk]
    intents: Mapping[str, tuple[Template, IntentSolver]]
    """The templates and their solvers, by the names in `intents.yaml`."""

    @cached_property
    def phrases(self) -> Phrases:
        """The words of `intents.yaml`. Raises WrongDeclaration."""
        return read_document(self.folder / "intents.yaml", WrongDeclaration).check(Phrases)

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """Return a desk with terms of its own."""
        keys = {table.name: table.key for table in self.declared.table_specs()}
        records = self.maker(rng, knobs, keys).make()
        (terms,) = records[next(iter(keys))].values()
        return self.domain(knobs, records, self.declared.of_instance(terms))

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Yield a task for each intent of each person of the instance."""
        desk, everyone = self.desk(domain.records, rng, self.phrases), domain.records[self.people]
        intents = {
            key: [
                intent
                for name, (template, _) in self.intents.items()
                for intent in desk.worded(name, template(desk, person))
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
        """Look up the person, then solve each intent. Raises LookupError."""
        way = next(each for each in self.phrases.callers if each.slots.keys() <= task.slots.keys())
        person = use(way.tool, **{name: task.slots[name] for name in way.slots})
        solvers = {name: solver for name, (_, solver) in self.intents.items()}
        return solve_intents(task, person, solvers)
