"""Tools over a graph of people, places, firms and books. Runs in the sandbox only."""

from typing import Any, NoReturn

Database = dict[str, dict[str, dict[str, Any]]]


def refuse(why: str) -> NoReturn:
    """End a call; what runs a toolkit gives it `ToolError`."""
    raise ToolError(why)  # type: ignore[name-defined]  # noqa: F821


def located(db: Database, entity_id: str) -> tuple[str, dict[str, Any]]:
    """The kind and the record of an entity."""
    for kind, table in db.items():
        if kind != "relation" and entity_id in table:
            return kind, table[entity_id]
    refuse(f"there is no entity {entity_id!r}")


def relation_names(db: Database, kind: str) -> list[str]:
    """The relations that an entity of a kind has, both ways."""
    forward = [name for name, each in db["relation"].items() if each["source"] == kind]
    return forward + [e["inverse"] for e in db["relation"].values() if e["target"] == kind]


def card(db: Database, kind: str, record: dict[str, Any]) -> dict[str, Any]:
    """An entity as the tools show it."""
    relations = relation_names(db, kind)
    return {
        "entity_id": record["entity_id"],
        "kind": kind,
        "name": record["name"],
        "relations": relations,
    }


def find_entity(db: Database, name: str) -> dict[str, Any]:
    """All entities with a name."""
    matches = [
        card(db, kind, record)
        for kind, table in db.items()
        if kind != "relation"
        for record in table.values()
        if record["name"] == name
    ]
    if not matches:
        refuse(f"nothing is called {name!r}")
    return {"matches": matches}


def follow(db: Database, entity_id: str, relation: str) -> dict[str, Any]:
    """The entities that a relation leads to."""
    kind, record = located(db, entity_id)
    if relation not in relation_names(db, kind):
        refuse(f"a {kind} has no relation {relation!r}")
    if relation in db["relation"]:
        target = db["relation"][relation]["target"]
        found = [card(db, target, db[target][record[relation]])]
    else:
        name, each = next((n, e) for n, e in db["relation"].items() if e["inverse"] == relation)
        others = db[each["source"]].values()
        found = [card(db, each["source"], other) for other in others if other[name] == entity_id]
    return {"entity_id": entity_id, "relation": relation, "found": found}


def facts_of(db: Database, entity_id: str) -> dict[str, Any]:
    """The numbers that are known of an entity."""
    kind, record = located(db, entity_id)
    facts = {field: value for field, value in record.items() if isinstance(value, int)}
    return {"entity_id": entity_id, "kind": kind, "name": record["name"], "facts": facts}


def relations_of(db: Database, entity_id: str) -> dict[str, Any]:
    """The relations of an entity and how many entities each leads to."""
    kind, _ = located(db, entity_id)
    names = relation_names(db, kind)
    leads = {name: len(follow(db, entity_id, name)["found"]) for name in names}
    return {"entity_id": entity_id, "relations": leads}


def list_entities(db: Database, kind: str, letter: str = "") -> dict[str, Any]:
    """The entities of a kind, or those whose names begin so."""
    if kind == "relation" or kind not in db:
        refuse(f"there is no kind {kind!r}")
    found = [record for record in db[kind].values() if record["name"].startswith(letter)]
    shown = [{"entity_id": record["entity_id"], "name": record["name"]} for record in found]
    return {"kind": kind, "entities": shown}


def filter_entities(db: Database, kind: str, fact: str, least: int, most: int) -> dict[str, Any]:
    """The entities of a kind one of whose numbers lies between two bounds."""
    listed = list_entities(db, kind)["entities"]
    known = [each for each in listed if isinstance(db[kind][each["entity_id"]].get(fact), int)]
    if not known:
        refuse(f"a {kind} has no fact {fact!r}")
    found = [each for each in known if least <= db[kind][each["entity_id"]][fact] <= most]
    return {"kind": kind, "entities": found}
