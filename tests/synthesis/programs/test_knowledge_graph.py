"""Tests that a question on the graph has one answer, recomputed from the records without tools or
paths of the generator, and that the knobs change the difficulty."""

from typing import Any

import pytest

from tests.synthesis.programs.trial import Trial, trial
from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.programs import PROGRAMS

Records = dict[str, dict[str, dict[str, Any]]]


def reached(records: Records, task: DomainTask, start: str, path: str) -> tuple[str, str]:
    """Return kind and id at the end of a path from one of the task's entities."""
    kind, name, _ = task.slots[start].split("|")
    near = [each.split("/") for each in task.sources]
    (key,) = (i for k, i in near if k == kind and records[k][i]["name"] == name)
    for step in filter(None, path.split(">")):
        key, kind = records[kind][key][step], records["relation"][step]["target"]
    return kind, key


def members(records: Records, key: str, inverse: str) -> list[tuple[str, str]]:
    """Return the targets of an inverse relation."""
    (name, each) = next((n, e) for n, e in records["relation"].items() if e["inverse"] == inverse)
    kind = each["source"]
    return [(kind, i) for i, record in records[kind].items() if record[name] == key]


def test_the_only_one_of_an_intersection_is_the_only_one() -> None:
    one = trial(PROGRAMS["knowledge_graph"], 1, 400)
    for task in _of(one, "intersection"):
        records, slots = one.domain.records, task.slots
        _, here = reached(records, task, "start", slots["path"])
        _, there = reached(records, task, "other", "")
        ours = set(members(records, here, slots["back"]))
        both = ours & set(members(records, there, slots["other_back"]))
        assert [records[kind][key]["name"] for kind, key in both] == list(task.world.communicate)
        assert len(ours) >= 2


def test_counts_and_superlatives_are_right_and_superlatives_unique() -> None:
    one = trial(PROGRAMS["knowledge_graph"], 2, 900)
    records = one.domain.records
    for task in _of(one, "counting"):
        front = [reached(records, task, "start", task.slots["path"])]
        for inverse in task.slots["fan"].split(">"):
            front = [each for _, key in front for each in members(records, key, inverse)]
        assert task.world.communicate == (str(len(set(front))),)
        assert len(set(front)) >= 10
    for task in _of(one, "superlative"):
        _, here = reached(records, task, "start", task.slots["path"])
        found = members(records, here, task.slots["back"])
        values = {records[k][i][task.slots["fact"]]: records[k][i]["name"] for k, i in found}
        assert len(values) == len(found)
        best = min(values) if task.slots["pick"] == "least" else max(values)
        assert task.world.communicate == (values[best],)


@pytest.mark.parametrize("distractors", [0, 3])
def test_distractors_bring_parallel_relations_and_shared_names(distractors: int) -> None:
    records = trial(PROGRAMS["knowledge_graph"], 3, 0, distractors=distractors).domain.records
    names = [e["name"] for kind, table in records.items() if kind != "relation" for e in
             table.values()]  # fmt: skip
    assert len(records["relation"]) == 12 + distractors
    assert len(names) - len(set(names)) == 3 * distractors


@pytest.mark.parametrize("hops", [1, 5])
def test_hops_bound_the_way_to_the_answer(hops: int) -> None:
    one = trial(PROGRAMS["knowledge_graph"], 4, 300, hops=hops)
    chains = [task.difficulty["hops"] for task in _of(one, "chain")]
    assert max(chains) == hops
    assert len(_of(one, "chain")) >= 50


def _of(one: Trial, template: str) -> list[DomainTask]:
    found = [task for task in one.tasks if task.template == template]
    assert found, template
    return found
