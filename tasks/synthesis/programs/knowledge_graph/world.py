"""The graph: its kinds and relations, and an instance with invented names.

In: a random generator, the number of distractors. Out: records by kind, and the kinds' tables.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import FieldSpec, TableSpec
from tutti.tasks.synthesis.programs.base.people import NameMaker
from tutti.tasks.synthesis.programs.base.program import Tables

SPARE = ("facts_of", "relations_of", "list_entities", "filter_entities")
"""The tools that may be offered beside those that a task needs, in this order."""


@dataclass(frozen=True)
class Fact:
    """A number that every entity of a kind has."""

    kind: str
    name: str
    least: int
    most: int
    of: str
    """The number in words, with ``{}`` for the entity."""
    lowest: str
    """The adjective of the entity with the lowest number."""
    highest: str


@dataclass(frozen=True)
class EntityKind:
    """A kind of entity."""

    name: str
    plural: str
    letter: str
    count: int
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Relation:
    """A relation from each entity of a kind to exactly one of another."""

    name: str
    source: str
    target: str
    phrase: str
    """The words for its target, with ``{}`` for the entity."""
    inverse: str
    back: str
    """The words for the targets of its inverse."""


FACTS = tuple(
    Fact(*row)
    for row in (
        ("person", "birth_year", 1702, 1989, "the birth year of {}", "oldest", "youngest"),
        ("firm", "founding_year", 1721, 1996, "the founding year of {}", "oldest", "newest"),
        ("firm", "staff", 112, 9870, "the number of staff of {}", "smallest", "largest"),
        ("town", "population", 2104, 98760, "the population of {}", "smallest", "largest"),
        ("town", "altitude_m", 104, 2987, "the altitude of {} in metres", "lowest", "highest"),
        ("province", "area_km2", 1203, 9876, "the area of {} in km2", "smallest", "largest"),
        ("river", "length_km", 101, 998, "the length of {} in km", "shortest", "longest"),
        ("book", "pages", 103, 997, "the number of pages of {}", "shortest", "longest"),
        ("book", "print_year", 1741, 1999, "the year of print of {}", "oldest", "newest"),
    )
)
KINDS = {
    name: EntityKind(name, plural, letter, count, tuple(f for f in FACTS if f.kind == name))
    for name, plural, letter, count in (
        ("person", "people", "P", 110),
        ("firm", "firms", "F", 45),
        ("town", "towns", "T", 48),
        ("province", "provinces", "V", 8),
        ("river", "rivers", "R", 14),
        ("book", "books", "B", 65),
    )
}
RELATIONS = tuple(
    Relation(*row)
    for row in (
        ("born_in", "person", "town", "the birthplace of {}", "natives", "born in {}"),
        ("works_for", "person", "firm", "the employer of {}", "employees", "employed by {}"),
        ("teacher", "person", "person", "the teacher of {}", "pupils", "taught by {}"),
        ("founder", "firm", "person", "the founder of {}", "founded", "founded by {}"),
        ("seat", "firm", "town", "the seat of {}", "seated_firms", "with their seat in {}"),
        ("province", "town", "province", "the province of {}", "towns", "in {}"),
        ("river", "town", "river", "the river of {}", "river_towns", "on {}"),
        ("mayor", "town", "person", "the mayor of {}", "governed_towns", "with {} as mayor"),
        ("capital", "province", "town", "the capital of {}", "capital_of", "with {} as capital"),
        ("spring", "river", "province", "the province where {} rises", "springs", "rising in {}"),
        ("author", "book", "person", "the author of {}", "books", "written by {}"),
        ("setting", "book", "town", "the town where {} is set", "set_books", "set in {}"),
    )
)
PARALLEL = tuple(
    Relation(*row)
    for row in (
        ("schooled_in", "person", "town", "the town where {} went to school", "scholars", ""),
        ("owner", "firm", "person", "the owner of {}", "owned", "owned by {}"),
        ("translator", "book", "person", "the translator of {}", "translated", "translated by {}"),
        ("governor", "province", "person", "the governor of {}", "governs", "governed by {}"),
        ("mouth", "river", "province", "the province where {} ends", "mouths", "ending in {}"),
        ("home", "person", "town", "the home town of {}", "residents", "living in {}"),
    )
)
"""Relations beside others of the same kinds; the knob `distractors` is their number."""
SUFFIXES = ("Works", "Mills", "Trading", "Foundry", "Line")
TITLES = ("The Lamp of {}", "A Winter with {}", "Letters to {}", "The Bells of {}", "{} at Noon")


def relations_with(distractors: int) -> tuple[Relation, ...]:
    """Return the relations of an instance."""
    return RELATIONS + PARALLEL[:distractors]


def build_records(rng: Random, distractors: int) -> Tables:
    """Return an instance's records; each distractor also gives three pairs that share a name."""
    made = NameMaker(rng)
    ids: dict[str, list[str]] = {}
    for kind in KINDS.values():
        numbers = rng.sample(range(100, 1000), kind.count)
        ids[kind.name] = [f"{kind.letter}{number}" for number in numbers]
    records: Tables = {kind.name: _entities(rng, made, kind, ids) for kind in KINDS.values()}
    for relation in relations_with(distractors):
        for record in records[relation.source].values():
            record[relation.name] = rng.choice(_targets(records, relation, record["entity_id"]))
    _share_names(rng, records, distractors)
    records["relation"] = {
        each.name: {
            "relation_id": each.name,
            **{name: getattr(each, name) for name in ("source", "target", "inverse")},
        }
        for each in relations_with(distractors)
    }
    return records


def _targets(records: Tables, relation: Relation, entity_id: str) -> list[str]:
    """The possible targets of a relation: not the entity itself; a capital lies in its province."""
    others = [each for each in records[relation.target] if each != entity_id]
    if relation.name != "capital":
        return others
    return [t for t in others if records["town"][t]["province"] == entity_id] or others


def _entities(
    rng: Random, made: NameMaker, kind: EntityKind, ids: dict[str, list[str]]
) -> dict[str, dict[str, Any]]:
    values = {f.name: rng.sample(range(f.least, f.most + 1), kind.count) for f in kind.facts}
    return {
        entity_id: {"entity_id": entity_id, "name": _name(rng, made, kind.name)}
        | {fact: numbers[place] for fact, numbers in values.items()}
        for place, entity_id in enumerate(ids[kind.name])
    }


def _name(rng: Random, made: NameMaker, kind: str) -> str:
    if kind == "person":
        return f"{made.name()} {made.name()}"
    if kind == "firm":
        return f"{made.name()} {rng.choice(SUFFIXES)}"
    return rng.choice(TITLES).format(made.name()) if kind == "book" else made.name(3)


def _share_names(rng: Random, records: Tables, distractors: int) -> None:
    """Give a common name to two people (birth years differ), a town and a river, a firm and a
    book."""
    people = rng.sample(list(records["person"].values()), 2 * distractors)
    towns = rng.sample(list(records["town"].values()), distractors)
    rivers = rng.sample(list(records["river"].values()), distractors)
    firms = rng.sample(list(records["firm"].values()), distractors)
    books = rng.sample(list(records["book"].values()), distractors)
    pairs = [*zip(people[::2], people[1::2], strict=True), *zip(towns, rivers, strict=True)]
    for first, second in [*pairs, *zip(firms, books, strict=True)]:
        second["name"] = first["name"]


def table_of(kind: EntityKind, distractors: int) -> TableSpec:
    """Return the table of a kind."""
    fields = [FieldSpec(name="entity_id", kind="text"), FieldSpec(name="name", kind="text")]
    fields += [
        FieldSpec(name=each.name, kind="integer", least=each.least, most=each.most)
        for each in kind.facts
    ]
    fields += [
        FieldSpec(name=each.name, kind="text", refers_to=each.target, about=each.phrase)
        for each in relations_with(distractors)
        if each.source == kind.name
    ]
    return TableSpec(name=kind.name, key="entity_id", about=kind.plural, fields=tuple(fields))
