"""Every gate passes its good examples and rejects its bad ones, with a reason."""

import pytest

from tutti.tasks.synthesis.domains import Domain, DomainTask, Toolkit
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import Gate, GateBench, Verdict


async def judged(gate: Gate, domain: Domain, task: DomainTask) -> Verdict:
    async with Toolkit(domain) as toolkit:
        bench = GateBench(domain, toolkit)
        if gate.name != "executes":
            (bench.replays[task.task_id],) = await toolkit.replay([task])
        (verdict,) = await gate.judge([task], bench)
    return verdict


@pytest.mark.parametrize("name", GATES)
async def test_good_examples_pass_and_bad_ones_do_not(name: str) -> None:
    gate = GATES[name]
    examples = gate.examples()
    assert examples.good and examples.bad, "a gate has both"
    for domain, task in examples.good:
        verdict = await judged(gate, domain, task)
        assert verdict.passed, verdict.reason
    for domain, task in examples.bad:
        verdict = await judged(gate, domain, task)
        assert not verdict.passed and verdict.reason
