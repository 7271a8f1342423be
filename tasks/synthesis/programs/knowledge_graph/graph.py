"""The graph as its templates read it: paths, the entities to which they lead, their golden calls.

In: a domain's records. Out: `Place` values, each an entity described by a start and a path.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Action, Domain
from tutti.tasks.synthesis.programs.base.program import call
from tutti.tasks.synthesis.programs.knowledge_graph.world import (
    KINDS,
    PARALLEL,
    RELATIONS,
    Relation,
)

Record = Mapping[str, Any]
BY_NAME = {each.name: each for each in (*RELATIONS, *PARALLEL)}


@dataclass(frozen=True)
class Place:
    """An entity, and its description in a question."""

    entity_id: str
    kind: str
    words: str
    start: str
    """The entity that the question names, as ``kind/id``."""
    slot: str
    """The start for the solver: ``kind|name|birth year or empty``."""
    path: tuple[str, ...]
    actions: tuple[Action, ...]
    """The golden calls that find it."""
    seen: tuple[str, ...] = ()
    """The entities on the way, itself included."""

    def follow(self, relation: str) -> Action:
        """Return the golden call that follows a relation of the entity."""
        return call("follow", entity_id=self.entity_id, relation=relation)


class Graph:
    """A domain's records, indexed."""

    def __init__(self, domain: Domain) -> None:
        records = domain.records
        self.domain = domain
        self.relations = tuple(BY_NAME[name] for name in records["relation"])
        self.forward = {k: [r for r in self.relations if r.source == k] for k in KINDS}
        self.named: dict[str, list[tuple[str, Record]]] = defaultdict(list)
        """The kinds and records of a name, in the order in which `find_entity` gives them."""
        self.back: dict[tuple[str, str], list[str]] = defaultdict(list)
        """The sources by relation and target."""
        for kind in KINDS:
            for record in records[kind].values():
                self.named[record["name"]].append((kind, record))
        for relation in self.relations:
            for source, record in records[relation.source].items():
                self.back[relation.name, record[relation.name]].append(source)

    def record(self, kind: str, entity_id: str) -> Record:
        """Return the record of an entity."""
        return self.domain.records[kind][entity_id]

    def place(self, kind: str, entity_id: str) -> Place:
        """Return an entity that a question names, with its birth year if people share the name."""
        record = self.record(kind, entity_id)
        name = record["name"]
        same = [r for k, r in self.named[name] if k == kind]
        actions = [call("find_entity", name=name)]
        words, year = f"the {kind} {name}", ""
        if len(same) > 1:
            year = str(record["birth_year"])
            words += f" (the one born in {year})"
            before = same[: same.index(record) + 1]
            actions += [call("facts_of", entity_id=each["entity_id"]) for each in before]
        start = f"{kind}/{entity_id}"
        slot = f"{kind}|{name}|{year}"
        return Place(entity_id, kind, words, start, slot, (), tuple(actions), (entity_id,))

    def step(self, place: Place, relation: Relation) -> Place:
        """The target of a relation of a place."""
        target = self.record(place.kind, place.entity_id)[relation.name]
        return Place(
            target,
            relation.target,
            relation.phrase.format(place.words),
            place.start,
            place.slot,
            (*place.path, relation.name),
            (*place.actions, place.follow(relation.name)),
            (*place.seen, target),
        )

    def walk(self, rng: Random, hops: int) -> Place | None:
        """A random walk from a named entity; None if it meets an entity twice or is too short."""
        kind = rng.choice(list(KINDS))
        place = self.place(kind, rng.choice(list(self.domain.records[kind])))
        for _ in range(hops):
            place = self.step(place, rng.choice(self.forward[place.kind]))
        return place if len(set(place.seen)) == len(place.seen) else None

    def name_of(self, kind: str, entity_id: str) -> str:
        """Return an entity's name."""
        return str(self.record(kind, entity_id)["name"])

    def inverses(self, kind: str) -> list[Relation]:
        """Return the relations that lead to a kind."""
        return [each for each in self.relations if each.target == kind and each.back]
