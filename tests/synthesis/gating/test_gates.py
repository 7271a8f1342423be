"""Every gate passes its own good examples and rejects its bad ones with a reason; none drops a good
task of hundreds; each is fast."""

from random import Random
from time import process_time

import pytest

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


@pytest.mark.parametrize("name", OWN)
async def test_a_gate_passes_its_good_examples_and_rejects_its_bad(name: str) -> None:
    good, bad = await judge_examples(GATES[name])
    assert [each.reason for each in good] == [""] * len(good) and good
    assert [each.passed for each in bad] == [False] * len(bad) and bad
    assert all(each.reason for each in bad)


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
