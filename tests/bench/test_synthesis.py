"""Tests of seeded defects: each is caught by its gate and passes without that gate, and no good
task is dropped."""

from random import Random

import pytest

from bench.synthesis.defects import PLANTERS, count_caught, seed_defects
from bench.synthesis.task_defects import BENCHMARK_TEXTS
from tests.synthesis.gating.lending import context_of, good_tasks, many_members
from tutti.tasks.synthesis.gating import GATES

OWN = "parses records leak contamination suffices described duplicates".split()
DOMAIN = many_members(100)
TASKS = good_tasks(DOMAIN, Random(1))


@pytest.mark.parametrize("name", OWN)
async def test_twenty_defects_are_caught_by_their_gate_and_missed_without_it(name: str) -> None:
    gates = {each: GATES[each] for each in OWN}
    defects = seed_defects(Random(2), DOMAIN, TASKS, gates=[name])
    async with context_of(DOMAIN, BENCHMARK_TEXTS) as bench:
        report = await count_caught(defects, TASKS, bench, gates)
    assert report.false_drops == [] and report.good == 200
    count = report.counts[name]
    assert (count.planted, count.caught) == (20, 20), (count.by_another, count.missed)
    without = {each: gate for each, gate in gates.items() if each != name}
    async with context_of(DOMAIN, BENCHMARK_TEXTS) as bench:
        left = (await count_caught(defects[:6], [], bench, without)).counts[name]
    assert len(left.missed) + len(left.by_another) > 0, "the gate is not needed"


def test_every_planter_finds_a_place_and_plants_something() -> None:
    rng = Random(3)
    for planter in PLANTERS:
        planted = [planter.plant(rng, DOMAIN, task) for task in TASKS[:40]]
        found = [each for each in planted if each is not None]
        assert found, f"{planter.name} finds no place"
        if planter.name != "task copied":
            assert all((DOMAIN, task) not in found for task in TASKS[:4])


def test_the_same_seed_plants_the_same_defects() -> None:
    one, other = (seed_defects(Random(5), DOMAIN, TASKS, per_gate=3) for _ in range(2))
    assert [(d.planter.name, d.task) for d in one] == [(d.planter.name, d.task) for d in other]
