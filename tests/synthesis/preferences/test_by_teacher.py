"""Tests of a teacher's preferences on a scripted endpoint: the rule refuses, a second model
refuses, every reject has its reason, and nothing is paid for twice.

No strong model was available: the responses are hand-written.
"""

from typing import Any

import pytest

from tests.synthesis.example import EXAMPLE
from tests.synthesis.teacher.conftest import QUICK
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti import storage
from tutti.tasks.synthesis import DomainRequest, DomainSource, TeacherPool
from tutti.tasks.synthesis.domains import read_domain_folder
from tutti.tasks.synthesis.preferences import (
    PreferenceRequest,
    PreferenceSource,
    preference_reason,
)
from tutti.tasks.synthesis.preferences.proposing import Pair, pair_reason
from tutti.tasks.synthesis.teacher import TeacherBudget, TeacherEndpoint
from tutti.tasks.synthesis.teacher.faults import BudgetSpent
from tutti.tasks.task_sets import make_set

TOOLS = [each.name for each in EXAMPLE.tools]
AGREES, DISAGREES = {"agrees": True, "reason": ""}, {"agrees": False, "reason": "It says more."}


def pair(text: str, **weights: float) -> dict[str, Any]:
    named = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"instruction": text, "weights": named}


RIGHT = [
    pair("I want it cheap, please.", accuracy=0.5, cost=0.5),
    pair("Hurry, be quick!", accuracy=0.5, latency=0.5),
    pair("Cheap and quick.", accuracy=0.4, cost=0.3, latency=0.3),
    pair("The answer has to be right.", accuracy=1.0),
    pair("Mind the price; the rest is as it is.", accuracy=0.8, cost=0.2),
    pair("Be fast.", accuracy=0.7, latency=0.3),
]
REFUSED = pair("It must be quick, and think of my cat.", accuracy=0.6, latency=0.4)
WRONG = pair("Be quick.", accuracy=0.5, cost=0.5)


class Script(dict[str, Any]):
    """Proposals, and the second model's verdict by the question's name."""

    def __init__(self) -> None:
        proposals = [{"items": [*RIGHT, REFUSED, WRONG]}, {"items": [WRONG]}, {"items": []}]
        super().__init__({"preferences-0": proposals})

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        if name.startswith("preferences"):
            return [{"items": []}]
        return [AGREES]


class Endpoint(ScriptedEndpoint):
    """Endpoint whose second model refuses texts about a cat."""

    def _next(self, name: str) -> Any:
        asked = self.asked[-1][1]["messages"][0]["content"]
        if name.startswith("agreement") and "my cat" in asked:
            return DISAGREES
        return super()._next(name)


def desk(endpoint: ScriptedEndpoint, **budget: Any) -> TeacherPool:
    where = [TeacherEndpoint(endpoint.url, name, call_s=5.0, retry=QUICK) for name in ("a", "b")]
    return TeacherPool(where, [None, None], TeacherBudget(**budget), concurrency=1)


async def taught(
    request: PreferenceRequest, teachers: TeacherPool, catalog: storage.Catalog
) -> tuple[str, str]:
    source = PreferenceSource(request, catalog, teachers)
    return await make_set(source, catalog), source.spent


async def request_of(catalog: storage.Catalog) -> PreferenceRequest:
    asked = DomainRequest(domain="lending", size=40)
    made = await make_set(DomainSource(asked), catalog)
    return PreferenceRequest(task_set=made, teacher="big", checker="other", pairs=8)


async def test_only_what_both_let_pass_is_dealt_to_tasks(catalog: storage.Catalog) -> None:
    request = await request_of(catalog)
    async with serving(Endpoint(Script())) as endpoint:
        made, spent = await taught(request, desk(endpoint), catalog)
        again, free = await taught(request, desk(endpoint), catalog)
        models = {body["model"] for _, body, _ in endpoint.asked}
        assert max(endpoint.answered.values()) == 1
    assert again == made and spent and not free and models == {"a", "b"}
    (folder,) = catalog.home.artifact_folder(made).glob("lending-*")
    texts = {each["instruction"] for each in RIGHT}
    for task in read_domain_folder(folder)[1]:
        assert task.world.offer is not None and task.world.offer.preference.instruction in texts
        assert task.world.offer.preference.wording == "teacher"
        assert preference_reason(task.world.offer.preference, task.world.tools) == ""
    rows = storage.query(
        "select gate, v.reason, question from gate_verdicts v "
        "join tasks using (task_set_id, task_id) "
        "where task_set_id = $id and not passed and template = 'pair'",
        catalog.home,
        {"id": made},
    )
    reasons = {row["gate"]: row for row in rows}
    assert reasons["second_model"]["reason"] == "It says more."
    assert "my cat" in reasons["second_model"]["question"]
    assert "weights.latency is 0" in reasons["preference"]["reason"]
    entry = catalog.artifact(made)
    assert entry is not None and {p["name"] for p in entry["detail"]["prompts"]} >= {"propose"}


async def test_a_spent_budget_pays_for_nothing_twice(catalog: storage.Catalog) -> None:
    request = await request_of(catalog)
    async with serving(Endpoint(Script())) as endpoint:
        with pytest.raises(BudgetSpent, match="the budget of 7 calls is spent"):
            await taught(request, desk(endpoint, calls=7), catalog)
        assert endpoint.calls() == 7
        await taught(request, desk(endpoint), catalog)
        assert max(endpoint.answered.values()) == 1


async def test_a_task_without_a_fitting_pair_is_dropped_with_the_reason(
    catalog: storage.Catalog,
) -> None:
    """There is one pair, and the tasks are of the two other splits."""
    request = await request_of(catalog)
    script = Script()
    script["preferences-0"] = [{"items": RIGHT[:1]}]
    async with serving(Endpoint(script)) as endpoint:
        made, _ = await taught(request, desk(endpoint), catalog)
    rows = storage.query(
        "select split, status, any_value(reason) as reason from tasks where task_set_id = $id "
        "group by all", catalog.home, {"id": made},
    )  # fmt: skip
    assert len([row for row in rows if row["status"] == "accepted"]) == 1
    dropped = [row["reason"] for row in rows if row["status"] == "rejected"]
    assert len(dropped) == 2 and all("no pair of the task's split fits" in each for each in dropped)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (pair("Be cheap.", accuracy=0.5, cost=0.5), ""),
        (pair("Use `x_ray`.", accuracy=0.5, x_ray=0.5), "no such tool is offered"),
        (pair("I want it cheap, please.", accuracy=0.5, cost=0.5), "it exists already"),
        ({"instruction": "Be cheap.", "weights": [{"name": "cost", "weight": 0.5}] * 2}, "twice"),
    ],
)
def test_a_proposal_is_refused_by_rule(raw: dict[str, Any], said: str) -> None:
    known = [Pair.model_validate(RIGHT[0])]
    why = pair_reason(Pair.model_validate(raw), known, TOOLS)
    assert said in why and bool(why) == bool(said)
