"""Solver of the graph's questions with the tools, from a task's slots only."""

from typing import Any

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.programs.base.program import Reading, use


def solve_question(task: DomainTask) -> Oracle:
    """Return the answer to the user. Raises LookupError if the results lack a needed value."""
    slots = task.slots
    here = yield from _reach(slots["start"], slots["path"])
    match task.template:
        case "chain":
            return f"It is {here['name']}."
        case "number":
            found = yield from _fact(here["entity_id"], slots["fact"])
            return f"It is {found}."
        case "comparison":
            there = yield from _reach(slots["other"], slots["path"])
            return (yield from _best([here, there], slots))
        case "superlative":
            return (yield from _best((yield from _follow(here, slots["back"])), slots))
        case "counting":
            return (yield from _counted(here, slots["fan"]))
    ours = yield from _follow(here, slots["back"])
    there = yield from _reach(slots["other"], "")
    theirs = {each["entity_id"] for each in (yield from _follow(there, slots["other_back"]))}
    (both,) = (each for each in ours if each["entity_id"] in theirs)
    return f"The only one is {both['name']}."


def _reach(slot: str, path: str) -> Reading:
    kind, name, year = slot.split("|")
    matches = (yield from use("find_entity", name=name))["matches"]
    same = [each for each in matches if each["kind"] == kind]
    here = None if year else same[0]
    for each in same:
        if here is None and (yield from _fact(each["entity_id"], "birth_year")) == int(year):
            here = each
    if here is None:
        raise LookupError(f"no {kind} {name} of {year}")
    for relation in filter(None, path.split(">")):
        (here,) = yield from _follow(here, relation)
    return here


def _counted(here: dict[str, Any], fan: str) -> Oracle:
    front = [here]
    for relation in fan.split(">"):
        reached: dict[str, Any] = {}
        for each in front:
            found = yield from _follow(each, relation)
            reached |= {one["entity_id"]: one for one in found}
        front = list(reached.values())
    return f"There are {len(front)}."


def _best(entities: list[dict[str, Any]], slots: dict[str, str]) -> Oracle:
    values: dict[str, int] = {}
    for each in entities:
        values[each["name"]] = yield from _fact(each["entity_id"], slots["fact"])
    choose = min if slots["pick"] == "least" else max
    return f"It is {choose(values, key=values.__getitem__)}."


def _follow(here: dict[str, Any], relation: str) -> Reading:
    result = yield from use("follow", entity_id=here["entity_id"], relation=relation)
    return result["found"]


def _fact(entity_id: str, fact: str) -> Reading:
    return (yield from use("facts_of", entity_id=entity_id))["facts"][fact]
