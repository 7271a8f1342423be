"""Tests that the three forms of a workflow are equivalent: each is parsed back to the graph from
which it was rendered, and a graph of any depth and branches is executable."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthesis.programs.trial import knobs_of, open_toolkit, trial
from tutti.tasks.synthesis.domains import Act, Action
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.workflow import flow_of
from tutti.tasks.synthesis.programs.workflow.flow import Drawer, Edge, Flow
from tutti.tasks.synthesis.programs.workflow.forms import FORMS, parse, render
from tutti.tasks.synthesis.programs.workflow.themes import Theme, themes

DRAWN = (
    st.integers(0, 10**6),
    st.sampled_from(themes()),
    st.integers(1, 5),
    st.integers(2, 3),
)


def drawn(seed: int, theme: Theme, depth: int, branches: int) -> Flow:
    return Drawer(random.Random(seed), theme, branches).draw(depth)


@settings(max_examples=settings().max_examples // 2)
@given(*DRAWN)
def test_each_form_is_read_back_as_its_graph(
    seed: int, theme: Theme, depth: int, branches: int
) -> None:
    flow = drawn(seed, theme, depth, branches)
    for form in FORMS:
        assert parse(render(flow, form), form) == flow, form


@settings(max_examples=settings().max_examples // 2)
@given(*DRAWN)
def test_every_step_is_reached_and_every_value_leads_to_the_end(
    seed: int, theme: Theme, depth: int, branches: int
) -> None:
    flow = drawn(seed, theme, depth, branches)
    tools = [step.tool for step in flow.steps if step.tool]
    assert len(set(tools)) == len(tools)
    reached, longest = {flow.steps[0].step_id}, 0
    rng = random.Random(seed)
    for step in flow.steps:
        assert step.step_id in reached
        reached |= {edge.target for edge in flow.edges if edge.source == step.step_id}
    for _ in range(300):
        known: dict[str, str | int] = {q.finds: rng.choice(q.values) for q in theme.questions}
        for each in theme.checks:
            numbers = rng.randint(each.least, each.most)
            known[each.finds] = rng.choice(each.values) if each.values else numbers
        path = flow.walk(known)
        longest = max(longest, sum(step.kind in ("ask", "check") for step in path))
        assert path[-1].kind == "act"
        assert path[-1].tool in {act.tool for act in theme.closing}
    assert longest <= depth


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_the_policy_shows_the_graph_of_the_tables(form: int) -> None:
    domain = PROGRAMS["workflow"].build(random.Random(1), knobs_of(PROGRAMS["workflow"], form=form))
    block = domain.policy.partition("```")[2].partition("\n")[2].partition("  ```")[0]
    shown = "\n".join(line.removeprefix("  ") for line in block.splitlines())
    assert parse(shown, FORMS[form]) == flow_of(domain)


@pytest.mark.parametrize("depth", [1, 5])
def test_an_instance_has_500_tasks_at_any_depth(depth: int) -> None:
    assert len(trial(PROGRAMS["workflow"], 5, 1500, depth=depth).tasks) >= 500


def test_a_line_that_no_workflow_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="no line of a workflow as text: 'S1"):
        parse("S1. Dance.", "text")


def test_a_value_that_no_edge_admits_is_an_error() -> None:
    flow = drawn(1, themes()[0], 2, 2)
    with pytest.raises(LookupError, match="no edge leads on from S1 with 'unheard of'"):
        flow.after("S1", "unheard of")
    assert not Edge("S1", "S2", (), 3, None).admits(2)


async def test_the_rules_allow_only_the_step_that_is_next() -> None:
    """At each step of a path, only one of all the desk's writing tools is allowed."""
    one = trial(PROGRAMS["workflow"], 2, 6)
    writing = [each.name for each in one.domain.tools if each.kind == "WRITE"]
    async with open_toolkit(one.domain) as toolkit:
        for task in one.tasks:
            await toolkit.begin({"p": task})
            for action in task.world.actions:
                asked = [["ask", "p", "in_order_only", w, action.arguments] for w in writing]
                replies = await toolkit.request(asked)
                allowed = [w for w, each in zip(writing, replies, strict=True) if not each["value"]]
                assert len(allowed) == 1
                assert action.name in (*allowed, "get_case")
                await toolkit.act([Act("p", action)])
            look = Action(name="get_case", arguments=task.world.actions[0].arguments)
            (end,) = await toolkit.act([Act("p", look)])
            assert end.value["status"] == "closed"
