"""Tests of a set with preferences: drawn by its seed, gated, run at its own prices, and queried by
SQL."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.synthesis.example import EXAMPLE, EXTENDED
from tests.synthesis.gating.examples import Examples
from tests.synthesis.gating.lending import judge_examples
from tutti import storage
from tutti.errors import UsageError
from tutti.tasks.agents.orchestrator import AgentFile
from tutti.tasks.benchmarks import Source
from tutti.tasks.synthesis import DomainRequest, DomainSource
from tutti.tasks.synthesis.domains import (
    DOMAIN_TASK,
    Domain,
    DomainTask,
    changed_task,
    domain_benchmark,
    read_domain_folder,
)
from tutti.tasks.synthesis.domains.domain import PREFERENCE
from tutti.tasks.synthesis.domains.offer import Preference, TaskOffer
from tutti.tasks.synthesis.preferences import (
    PreferenceRequest,
    PreferenceSource,
    preference_reason,
)
from tutti.tasks.synthesis.preferences.gates import OWN_GATES, fit_reason
from tutti.tasks.synthesis.preferences.offering import draw_offer, needed_tools, read_vendors
from tutti.tasks.synthesis.preferences.weights import read_wordings, shape_of
from tutti.tasks.task_sets import EXPERTS, make_set, task_line

SHOWN = {
    "expert-1": {"prompt": 2.0, "completion": 8.0},
    "expert-2": {"prompt": 0.1, "completion": 0.3},
}
EXPERT = {"latency_s": 1, "skills": "Good.", "max_tokens": 100}
TWO_EXPERTS = {
    "expert-1": EXPERT | {"model": "big", "prices": SHOWN["expert-1"]},
    "expert-2": EXPERT | {"model": "small", "prices": SHOWN["expert-2"]},
}
AGENT = {
    "system": "Choose.",
    "tools": {"call_expert": {"description": "x", "experts": TWO_EXPERTS}},
}
VERDICTS = (
    "select gate, count(*) as n, sum(cast(not passed as int)) as dropped, any_value(position) as p "
    "from gate_verdicts where task_set_id = $id group by gate order by p"
)


async def lending_set(catalog: storage.Catalog, **asked: object) -> str:
    request = DomainRequest.model_validate(asked)
    return await make_set(DomainSource(request), catalog)


def tasks_of(catalog: storage.Catalog, task_set: str) -> list[DomainTask]:
    folders = sorted(catalog.home.artifact_folder(task_set).glob("lending-*"))
    return [task for folder in folders for task in read_domain_folder(folder)[1]]


async def test_every_task_gets_an_offer_that_its_gates_pass(catalog: storage.Catalog) -> None:
    """The same request gives the same set, another seed another one."""
    made = await lending_set(catalog, domain="lending", size=30, instance_tasks=20)
    request = PreferenceRequest(task_set=made)
    kept = await make_set(PreferenceSource(request, catalog), catalog)
    assert await make_set(PreferenceSource(request, catalog), catalog) == kept
    other = await make_set(
        PreferenceSource(PreferenceRequest(task_set=made, seed=1), catalog), catalog
    )
    before, after = tasks_of(catalog, made), tasks_of(catalog, kept)
    assert len(after) == 30 and not {t.task_id for t in before} & {t.task_id for t in after}
    offers = [task.world.offer for task in after]
    assert offers != [task.world.offer for task in tasks_of(catalog, other)]
    for task, offer in zip(after, offers, strict=True):
        assert offer is not None and set(offer.call_usd) == set(task.world.tools)
        assert preference_reason(offer.preference, task.world.tools) == ""
        assert read_wordings()[offer.preference.wording].split == task.split
    rows = storage.query(VERDICTS, catalog.home, {"id": kept})
    names = ["offer", "preference", "executes", "oracle"]
    assert [(r["gate"], r["n"], r["dropped"]) for r in rows] == [(name, 30, 0) for name in names]
    found = storage.query(
        "select count(distinct slots ->> 'wording') as n, count(slots ->> 'preference') as p "
        "from tasks where task_set_id = $id", catalog.home, {"id": kept},
    )  # fmt: skip
    assert found[0]["n"] > 4 and found[0]["p"] == 30


async def test_no_split_has_another_ones_wordings_or_weights(catalog: storage.Catalog) -> None:
    made = await lending_set(catalog, domain="lending", size=60)
    kept = await make_set(PreferenceSource(PreferenceRequest(task_set=made), catalog), catalog)
    seen: dict[str, dict[str, set[str]]] = {"wording": {}, "shape": {}}
    for task in tasks_of(catalog, kept):
        assert task.world.offer is not None
        found = task.world.offer.preference
        seen["wording"].setdefault(task.split, set()).add(found.wording)
        seen["shape"].setdefault(task.split, set()).add(shape_of(found.weights))
    for by_split in seen.values():
        values = [value for each in by_split.values() for value in each]
        assert len(by_split) == 3 and len(values) == len(set(values))


@given(st.text(max_size=8))
def test_tools_and_prices_are_a_function_of_the_stream(stream: str) -> None:
    """A vendor's price depends on the tool's kind, needed tools are included, and experts have the
    vendor's factor."""
    agent = AgentFile.model_validate(AGENT)
    offer = draw_offer(EXAMPLE, EXTENDED, stream, agent, keep=["find_member"])
    assert offer == draw_offer(EXAMPLE, EXTENDED, stream, agent, keep=["find_member"])
    assert needed_tools(EXTENDED) | {"find_member"} <= set(offer.tools)
    books = read_vendors()
    for name, usd in offer.call_usd.items():
        assert usd == books[offer.vendors[name]].call_usd[EXAMPLE.tool_named[name].kind] > 0
    assert offer.experts and set(offer.experts) <= set(TWO_EXPERTS)
    for alias, prices in offer.experts.items():
        factor = books[offer.vendors[alias]].models
        shown = SHOWN[alias]
        assert prices.completion == pytest.approx(shown["completion"] * factor, rel=1e-5)


def test_another_agent_changes_no_tool_and_no_price() -> None:
    """Each feature has its own random stream."""
    plain = draw_offer(EXAMPLE, EXTENDED, "7")
    with_experts = draw_offer(EXAMPLE, EXTENDED, "7", AgentFile.model_validate(AGENT))
    assert plain.call_usd == with_experts.call_usd and plain.tools == with_experts.tools


async def test_a_run_offers_the_subset_at_its_prices(catalog: storage.Catalog) -> None:
    """The tools' descriptions have the prices, a call costs its price, and a malformed one costs
    nothing. The instruction is in the prompt; solo, it is at the end of the question."""
    made = await lending_set(catalog, domain="lending", size=12)
    kept = await make_set(PreferenceSource(PreferenceRequest(task_set=made), catalog), catalog)
    folder = catalog.home.artifact_folder(kept)
    by_id = {task.task_id: task for task in tasks_of(catalog, kept)}
    solo = list(domain_benchmark("x", folder, "train", solo=True).load(Source(split="train")))
    benchmark = domain_benchmark("x", folder, "train")
    assert benchmark.world is not None and solo
    for item, alone in zip(benchmark.load(Source(split="train")), solo, strict=True):
        offer = by_id[item.key].world.offer
        assert offer is not None
        text = offer.preference.instruction
        assert alone.given[-1]["content"].endswith(text)
        assert text in item.inputs["policy"] and text not in alone.inputs["policy"]
        assert json.loads(item.attributes[PREFERENCE]) == offer.preference.weights
        assert EXPERTS not in item.target
        shown = {t["function"]["name"]: t["function"]["description"] for t in item.tools}
        assert set(shown) == set(offer.call_usd)
        name, usd = next(iter(offer.call_usd.items()))
        assert f"A call costs {usd:.4g} USD." in shown[name]
    world = domain_benchmark("x", folder, "train", solo=True).world
    assert world is not None
    one = world(solo[-1], None)
    try:
        assert (await one.use(name, "{}")).cost_usd == usd
        assert (await one.use(name, "no JSON")).cost_usd == 0.0
        assert (await one.use("nowhere", "{}")).cost_usd == 0.0
    finally:
        await one.close()


async def test_experts_reach_the_run(catalog: storage.Catalog, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(json.dumps(AGENT))
    made = await lending_set(catalog, domain="lending", size=40)
    kept = await make_set(
        PreferenceSource(PreferenceRequest(task_set=made, agent=str(file)), catalog), catalog
    )
    items = domain_benchmark("x", catalog.home.artifact_folder(kept), "train").load(
        Source(split="train")
    )
    for item in items:
        assert item.target[EXPERTS] and set(item.target[EXPERTS]) <= set(TWO_EXPERTS)
        assert all(set(each) == {"prompt", "completion"} for each in item.target[EXPERTS].values())
    weighed = {
        n
        for t in tasks_of(catalog, kept)
        if t.world.offer
        for n in t.world.offer.preference.weights
    }
    assert weighed & set(TWO_EXPERTS), "an instruction may name experts too"


GOLDEN, HALF = EXTENDED.world.actions[0].name, {"accuracy": 0.5}
WRONG_OFFERS: dict[str, list[dict[str, object]]] = {
    "offer": [
        {"call_usd": {}},
        {"call_usd": {each.name: 0.0 for each in EXAMPLE.tools}},
        {"preference": {"instruction": f"Avoid `{GOLDEN}`.", "weights": HALF | {GOLDEN: -0.5}}},
    ],
    "preference": [
        {"preference": {"instruction": "Be quick.", "weights": HALF | {"cost": 0.5}}},
        {"preference": {"instruction": "Use `x_ray`.", "weights": {"accuracy": 1.0}}},
        {"preference": {"instruction": "Be cheap.", "weights": HALF | {"cost": -0.5}}},
    ],
}


def offering(changes: dict[str, object]) -> tuple[Domain, DomainTask]:
    """Return a good task with an offer, which has `changes`."""
    preference = {"instruction": "Be quick.", "weights": HALF | {"latency": 0.5}}
    prices = {each.name: 0.001 for each in EXAMPLE.tools}
    offer = TaskOffer.model_validate({"preference": preference, "call_usd": prices} | changes)
    return EXAMPLE, changed_task(EXTENDED, offer=offer, tools=())


@pytest.mark.parametrize("name", OWN_GATES)
async def test_the_gates_pass_their_good_examples_and_reject_the_bad(name: str) -> None:
    examples = Examples([*map(offering, WRONG_OFFERS[name])], [offering({})])
    good, bad = await judge_examples(OWN_GATES[name], examples)
    assert [each.reason for each in good if not each.passed] == []
    assert bad and all(not each.passed and each.reason for each in bad)


def test_a_tool_that_would_spoil_the_task_is_not_preferred() -> None:
    """Such a tool is a WRITE tool that no golden call uses."""
    kept = changed_task(EXTENDED, actions=EXTENDED.world.actions[:1])
    writer = next(each.name for each in EXAMPLE.tools if each.kind == "WRITE")
    offer = {"instruction": f"Use `{writer}`.", "weights": {"accuracy": 0.5, writer: 0.5}}
    wanted = Preference.model_validate(offer)
    assert "changes records, and no golden call uses it" in fit_reason(EXAMPLE, kept, wanted)
    assert fit_reason(EXAMPLE, EXTENDED, wanted) == ""


async def test_an_unknown_set_and_half_a_teacher_are_refused(catalog: storage.Catalog) -> None:
    with pytest.raises(UsageError, match="no task set 'task_set:9' of a domain"):
        await make_set(PreferenceSource(PreferenceRequest(task_set="task_set:9"), catalog), catalog)
    with pytest.raises(ValueError, match="give both; a second model checks"):
        PreferenceRequest(task_set="x", teacher="big")
    with pytest.raises(ValueError, match="big is the teacher; a second model must check"):
        PreferenceRequest(task_set="x", teacher="big", checker="big")


def test_labels_are_no_part_of_a_tasks_id() -> None:
    labelled = changed_task(EXTENDED, attributes={"skill": "x"})
    assert labelled.task_id == EXTENDED.task_id
    assert DOMAIN_TASK.validate_json(task_line(labelled)) == labelled
