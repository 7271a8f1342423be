"""The graph: its kinds and relations, and an instance with invented names.

In: a random generator, how many distractors. Out: records by kind, and the domain.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Domain, FieldSpec, Parameter, TableSpec, ToolSpec
from tutti.tasks.synthesis.domains.domain import Rule
from tutti.tasks.synthesis.programs.invented import NameMaker

TOOLKIT = Path(__file__).with_name("toolkit.py")


@dataclass(frozen=True)
class Fact:
    """A number that is known of every entity of a kind."""

    name: str
    least: int
    most: int
    of: str
    """The number in words, with ``{}`` for the entity."""
    lowest: str
    """The adjective of the one with the lowest number."""
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
    """From each entity of a kind to exactly one of another."""

    name: str
    source: str
    target: str
    phrase: str
    """Where it leads, with ``{}`` for the entity."""
    inverse: str
    back: str
    """Where its inverse leads, in the plural."""


KINDS = {
    kind.name: kind
    for kind in (
        EntityKind(
            "person",
            "people",
            "P",
            110,
            (Fact("birth_year", 1702, 1989, "the birth year of {}", "oldest", "youngest"),),
        ),
        EntityKind(
            "firm",
            "firms",
            "F",
            45,
            (
                Fact("founding_year", 1721, 1996, "the founding year of {}", "oldest", "newest"),
                Fact("staff", 112, 9870, "the number of staff of {}", "smallest", "largest"),
            ),
        ),
        EntityKind(
            "town",
            "towns",
            "T",
            48,
            (
                Fact("population", 2104, 98760, "the population of {}", "smallest", "largest"),
                Fact("altitude_m", 104, 2987, "the altitude of {} in metres", "lowest", "highest"),
            ),
        ),
        EntityKind(
            "province",
            "provinces",
            "V",
            8,
            (Fact("area_km2", 1203, 9876, "the area of {} in km2", "smallest", "largest"),),
        ),
        EntityKind(
            "river",
            "rivers",
            "R",
            14,
            (Fact("length_km", 101, 998, "the length of {} in km", "shortest", "longest"),),
        ),
        EntityKind(
            "book",
            "books",
            "B",
            65,
            (
                Fact("pages", 103, 997, "the number of pages of {}", "shortest", "longest"),
                Fact("print_year", 1741, 1999, "the year of print of {}", "oldest", "newest"),
            ),
        ),
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
"""Beside others of the same kinds: so many of them as the knob `distractors` says."""
SUFFIXES = ("Works", "Mills", "Trading", "Foundry", "Line")
TITLES = ("The Lamp of {}", "A Winter with {}", "Letters to {}", "The Bells of {}", "{} at Noon")


def relations_with(distractors: int) -> tuple[Relation, ...]:
    """The relations of an instance."""
    return RELATIONS + PARALLEL[:distractors]


def build_records(rng: Random, distractors: int) -> dict[str, dict[str, dict[str, Any]]]:
    """An instance's records; each distractor also gives three pairs that share a name."""
    made = NameMaker(rng)
    ids: dict[str, list[str]] = {}
    for kind in KINDS.values():
        numbers = rng.sample(range(100, 1000), kind.count)
        ids[kind.name] = [f"{kind.letter}{number}" for number in numbers]
    records: dict[str, dict[str, dict[str, Any]]] = {
        kind.name: _entities(rng, made, kind, ids) for kind in KINDS.values()
    }
    for relation in relations_with(distractors):
        for record in records[relation.source].values():
            record[relation.name] = rng.choice(_targets(records, relation, record["entity_id"]))
    _share_names(rng, records, distractors)
    records["relation"] = {
        each.name: {
            "relation_id": each.name,
            "source": each.source,
            "target": each.target,
            "inverse": each.inverse,
        }
        for each in relations_with(distractors)
    }
    return records


def _targets(
    records: dict[str, dict[str, dict[str, Any]]], relation: Relation, entity_id: str
) -> list[str]:
    """Where a relation may lead: not to itself, and a capital lies in its province."""
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


def _share_names(
    rng: Random, records: dict[str, dict[str, dict[str, Any]]], distractors: int
) -> None:
    """Two people, a town and a river, a firm and a book get one name: birth years tell people."""
    people = rng.sample(list(records["person"].values()), 2 * distractors)
    towns = rng.sample(list(records["town"].values()), distractors)
    rivers = rng.sample(list(records["river"].values()), distractors)
    firms = rng.sample(list(records["firm"].values()), distractors)
    books = rng.sample(list(records["book"].values()), distractors)
    pairs = [*zip(people[::2], people[1::2], strict=True), *zip(towns, rivers, strict=True)]
    for first, second in [*pairs, *zip(firms, books, strict=True)]:
        second["name"] = first["name"]


def build_domain(rng: Random, distractors: int, lineage: dict[str, Any]) -> Domain:
    """An instance as a domain."""
    return Domain(
        name="knowledge_graph",
        about="Policy of the reference desk",
        tables=(*(_table(kind, distractors) for kind in KINDS.values()), _relation_table()),
        records=build_records(rng, distractors),
        toolkit=TOOLKIT.read_text(),
        tools=TOOLS,
        rules=RULES,
        lineage=lineage,
    )


def _table(kind: EntityKind, distractors: int) -> TableSpec:
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


def _relation_table() -> TableSpec:
    kinds = tuple(KINDS)
    fields = (
        FieldSpec(name="relation_id", kind="text"),
        FieldSpec(name="source", kind="text", one_of=kinds),
        FieldSpec(name="target", kind="text", one_of=kinds),
        FieldSpec(name="inverse", kind="text", about="its name from the target's side"),
    )
    return TableSpec(name="relation", key="relation_id", about="typed relations", fields=fields)


_ID = Parameter(name="entity_id", kind="text", about="as other tools give it")
_KIND = Parameter(name="kind", kind="text", about=f"one of {', '.join(KINDS)}")
TOOLS = (
    ToolSpec(
        name="find_entity",
        kind="READ",
        about="Find all entities that have exactly this name, with the relations each has.",
        parameters=(Parameter(name="name", kind="text", about="the whole name"),),
        returns=("matches",),
    ),
    ToolSpec(
        name="follow",
        kind="READ",
        about="Follow a relation from an entity; the result lists what it leads to.",
        parameters=(
            _ID,
            Parameter(name="relation", kind="text", about="one of the entity's relations"),
        ),
        returns=("entity_id", "relation", "found"),
    ),
    ToolSpec(
        name="facts_of",
        kind="READ",
        about="The numbers known of an entity: years, sizes, lengths.",
        parameters=(_ID,),
        returns=("entity_id", "kind", "name", "facts"),
    ),
    ToolSpec(
        name="relations_of",
        kind="READ",
        about="The relations of an entity and how many entities each leads to.",
        parameters=(_ID,),
        returns=("entity_id", "relations"),
    ),
    ToolSpec(
        name="list_entities",
        kind="READ",
        about="List the entities of a kind.",
        parameters=(
            _KIND,
            Parameter(name="letter", kind="text", about="how names begin", optional=True),
        ),
        returns=("kind", "entities"),
    ),
    ToolSpec(
        name="filter_entities",
        kind="READ",
        about="List the entities of a kind one of whose numbers lies between two bounds.",
        parameters=(
            _KIND,
            Parameter(name="fact", kind="text", about="the number's name"),
            Parameter(name="least", kind="integer", about="the lower bound"),
            Parameter(name="most", kind="integer", about="the upper bound"),
        ),
        returns=("kind", "entities"),
    ),
)
SPARE = ("facts_of", "relations_of", "list_entities", "filter_entities")
"""The tools that may be offered beside those that a task needs, in this order."""
RULES = (
    Rule(id="looked_up", text="Answer from the tools' results only; never guess."),
    Rule(id="same_name", text="Several entities may share a name: make sure which one is meant."),
    Rule(id="whole_name", text="Give names and numbers as the tools spell them."),
)
