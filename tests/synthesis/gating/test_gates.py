"""Tests that every gate passes its good examples and rejects its bad ones with a reason. No gate
drops one of hundreds of good tasks, and each is fast."""

from random import Random
from time import process_time

import pytest

from tests.synthesis.gating.examples import EXAMPLES
from tests.synthesis.gating.lending import (
    context_of,
    good_tasks,
    judge_examples,
    many_members,
    replayed,
)
from tutti.tasks.synthesis.gating import GATES

OWN = "parses records leak contamination suffices described duplicates".split()
BENCHMARKS = [
    f"Question {number}: a shop sells {number} {thing} on {day} for {number * 3} dollars each; "
    f"what does it earn if {number % 9} are returned?"
    for number in range(400)
    for thing, day in (("lamps", "Monday"), ("chairs", "Friday"), ("loans of books", "Sunday"))
]


@pytest.mark.parametrize("name", GATES)
async def test_good_examples_pass_and_bad_ones_do_not(name: str) -> None:
    good, bad = await judge_examples(GATES[name], EXAMPLES[name])
    assert good and bad, "a gate has both"
    assert [each.reason for each in good if not each.passed] == []
    assert all(not each.passed and each.reason for each in bad)


async def test_no_gate_drops_a_good_task_and_all_together_are_fast() -> None:
    domain = many_members()
    tasks = good_tasks(domain, Random(1))
    spent = {}
    async with context_of(domain, BENCHMARKS) as context:
        await replayed(context, tasks)
        for name in OWN:
            start = process_time()
            verdicts = await GATES[name].judge(tasks, context)
            spent[name] = (process_time() - start) / len(tasks)
            assert [each.reason for each in verdicts if not each.passed] == []
    print({name: f"{seconds * 1e6:.0f} us" for name, seconds in spent.items()})
    assert sum(spent.values()) < 0.006  # 2 ms is meant; a busy machine is slower
