"""Tests of requests to a teacher: every fault of an endpoint is detected, named and counted, and no
response is lost or paid for twice."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.synthesis.teacher.conftest import NewTeacher, fault_counts, faults
from tests.synthesis.teacher.scripted_endpoint import Raw, ScriptedEndpoint, serving
from tutti.errors import UsageError
from tutti.storage import Cost
from tutti.tasks.synthesis.teacher import (
    BudgetSpent,
    Meter,
    Question,
    TeacherBudget,
    TeacherFailed,
    TeacherPrices,
    open_store,
)

GOOD = {"n": 7}


class Number(BaseModel):
    """Response with a number."""

    n: int


def question(name: str = "q", **more: Any) -> Question[Number]:
    return Question(name, f"Give a number for {name}.", Number, **more)


FAULTS: dict[str, tuple[list[Any], dict[str, int]]] = {
    "bad json": ([Raw("{n: 7"), GOOD], {"bad_json": 1}),
    "half a json": ([Raw('{"n"', finish="length"), GOOD], {"half_json": 1}),
    "refusal": ([Raw(refusal="I would rather not"), GOOD], {"refusal": 1}),
    "content filter": ([Raw("", finish="content_filter"), GOOD], {"refusal": 1}),
    "schema": ([{"n": "seven"}, GOOD], {"schema": 1}),
    "429 storm": ([*[Raw(status=429, headers={"Retry-After": "0"})] * 4, GOOD], {"rate_limit": 4}),
    "500s": ([Raw(status=500), Raw(status=500), GOOD], {"server_error": 2}),
    "no message": ([Raw(status=500), {"n": "x"}, GOOD], {"server_error": 1, "schema": 1}),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_named_counted_and_overcome(name: str, new_teacher: NewTeacher) -> None:
    answers, counts = FAULTS[name]
    async with serving(ScriptedEndpoint({"q": answers})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            assert await teacher.ask(question()) == Number(n=7)
            assert fault_counts(teacher.store) == counts
            assert all(remedy for _, _, remedy in faults(teacher.store))


async def test_a_time_out_is_named_and_asked_again(new_teacher: NewTeacher) -> None:
    """The call that timed out may be charged, so it counts."""
    async with serving(ScriptedEndpoint({"q": [Raw(delay_s=60.0), GOOD]})) as endpoint:
        async with new_teacher(endpoint, call_s=1.0) as teacher:
            assert await teacher.ask(question()) == Number(n=7)
            assert fault_counts(teacher.store) == {"timeout": 1}


async def test_the_error_is_sent_back_once_and_then_given_up(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint({"q": [{"n": "seven"}]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            with pytest.raises(TeacherFailed, match="schema: n: Input should be a valid integer"):
                await teacher.ask(question())
        last = endpoint.asked[-1][1]["messages"][-1]["content"]
        assert endpoint.calls() == 2
        assert "given 'seven'" in last


async def test_half_a_json_is_asked_again_with_more_room(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint({"q": FAULTS["half a json"][0]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            await teacher.ask(question(max_tokens=50))
        assert [body["max_tokens"] for _, body, _ in endpoint.asked] == [50, 100]


async def test_the_pause_of_a_429_is_kept_by_all_calls(new_teacher: NewTeacher) -> None:
    """A call that arrives during the pause waits, too, because otherwise the overload would
    continue."""
    script: dict[str, list[Any]] = {
        "a": [Raw(status=429, headers={"Retry-After": "0.3"}), GOOD],
        "b": [GOOD],
    }
    async with serving(ScriptedEndpoint(script)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            first = asyncio.create_task(teacher.ask(question("a")))
            began = asyncio.get_running_loop().time()
            while not fault_counts(teacher.store):
                await asyncio.sleep(0.01)
            await teacher.ask(question("b"))
            assert asyncio.get_running_loop().time() - began >= 0.3
            await first


async def test_an_endless_storm_ends_with_its_cause(new_teacher: NewTeacher) -> None:
    storm = [Raw("slow down", status=429)]
    async with serving(ScriptedEndpoint({"q": storm})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            with pytest.raises(TeacherFailed, match=r"rate_limit: HTTP 429.*slow down"):
                await teacher.ask(question())
            assert fault_counts(teacher.store) == {"rate_limit": 6}
            assert faults(teacher.store)[-1][2] == "gave up"


async def test_forms_fall_back_are_remembered_and_recorded(new_teacher: NewTeacher) -> None:
    script = {"q": [GOOD], "r": [GOOD]}
    async with serving(ScriptedEndpoint(script, forms=("fenced_json",))) as endpoint:
        async with new_teacher(endpoint) as teacher:
            assert await teacher.ask(question()) == Number(n=7)
            assert fault_counts(teacher.store) == {"unsupported": 2}
        async with new_teacher(endpoint) as teacher:  # a later process
            assert teacher.mode == "fenced_json"
            assert await teacher.ask(question("r")) == Number(n=7)
        assert endpoint.calls("r") == 1


async def test_a_forced_tool_call_is_read(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint({"q": [GOOD]}, forms=("tool",))) as endpoint:
        async with new_teacher(endpoint) as teacher:
            assert await teacher.ask(question()) == Number(n=7)
        body = endpoint.asked[-1][1]
        assert body["tool_choice"]["function"]["name"] == "q"


async def test_a_form_that_is_taken_but_not_heeded_falls_back(new_teacher: NewTeacher) -> None:
    prose = Raw("Seven, I should say.")
    async with serving(ScriptedEndpoint({"q": [prose, prose, prose, GOOD]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            assert await teacher.ask(question()) == Number(n=7)
        assert "tools" in endpoint.asked[2][1] and "tools" not in endpoint.asked[3][1]


async def test_a_prompt_that_is_too_long_is_no_matter_of_form(new_teacher: NewTeacher) -> None:
    long = Raw("the schema and prompt exceed the context length", status=400)
    async with serving(ScriptedEndpoint({"q": [long]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            with pytest.raises(TeacherFailed, match="request: HTTP 400"):
                await teacher.ask(question())
        assert endpoint.calls() == 1


async def test_answers_are_in_order_and_calls_bounded(new_teacher: NewTeacher) -> None:
    script = {f"q{n}": [Raw(json.dumps({"n": n}), delay_s=0.01 * (9 - n))] for n in range(9)}
    async with serving(ScriptedEndpoint(script, hold_after=0)) as endpoint:
        async with new_teacher(endpoint, concurrency=3) as teacher:
            asking = asyncio.create_task(teacher.ask_all([question(f"q{n}") for n in range(9)]))
            while endpoint.waiting < 3:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert endpoint.waiting == 3
            endpoint.held.set()
            found = await asking
    assert found == [Number(n=n) for n in range(9)]


async def test_the_same_question_is_paid_once(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint({"q": [{"n": "x"}, GOOD]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            await asyncio.gather(*(teacher.ask(question()) for _ in range(5)))
            assert teacher.meter.calls == 2
        async with new_teacher(endpoint) as teacher:
            await teacher.ask(question())
            assert teacher.meter.calls == 0
            assert fault_counts(teacher.store) == {"schema": 1}  # not counted again
        assert endpoint.calls() == 2


async def test_another_prompt_model_schema_or_sampling_is_another_call(
    new_teacher: NewTeacher,
) -> None:
    async with serving(ScriptedEndpoint({"q": [GOOD]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            await teacher.ask(question())
            await teacher.ask(question(max_tokens=9))
            await teacher.ask(Question("q", "another prompt", Number))
        assert endpoint.calls() == 3


async def test_calls_are_the_teachers_at_the_gateway(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint({"q": [GOOD]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            await teacher.ask(question())
        headers = endpoint.asked[0][2]
    assert (headers["x-tutti-role"], headers["x-program-id"]) == ("teacher", "teacher")
    assert headers["x-call-id"]


async def test_a_budget_of_calls_is_kept_and_what_is_finished_stays(
    new_teacher: NewTeacher,
) -> None:
    script = {f"q{n}": [GOOD] for n in range(6)}
    async with serving(ScriptedEndpoint(script)) as endpoint:
        async with new_teacher(endpoint, TeacherBudget(calls=4), concurrency=2) as teacher:
            with pytest.raises(BudgetSpent, match="the budget of 4 calls is spent"):
                await teacher.ask_all([question(f"q{n}") for n in range(6)])
        assert endpoint.calls() == 4
        async with new_teacher(endpoint, TeacherBudget(calls=4)) as teacher:
            await teacher.ask_all([question(f"q{n}") for n in range(6)])
            assert teacher.meter.calls == 2


async def test_a_budget_in_usd_is_never_exceeded(new_teacher: NewTeacher) -> None:
    """The endpoint uses the maximum number of tokens of a call: 20 of 20, 0.02 USD per call."""
    script = {f"q{n}": [GOOD] for n in range(9)}
    prices = TeacherPrices(prompt=0.0, completion=1_000.0)
    async with serving(ScriptedEndpoint(script)) as endpoint:
        budget = TeacherBudget(usd=0.0801)
        async with new_teacher(endpoint, budget, prices, concurrency=9) as teacher:
            with pytest.raises(BudgetSpent):
                await teacher.ask_all([question(f"q{n}", max_tokens=20) for n in range(9)])
            assert teacher.meter.cost.usd == pytest.approx(0.08)
        assert endpoint.answered.total() == endpoint.calls() == 4


async def test_an_unknown_price_is_said_and_never_free(new_teacher: NewTeacher) -> None:
    with pytest.raises(UsageError, match=r"budget\.usd: 3: the model has no `prices`"):
        Meter(TeacherBudget(usd=3), None)
    async with serving(ScriptedEndpoint({"q": [GOOD]})) as endpoint:
        async with new_teacher(endpoint) as teacher:
            await teacher.ask(question())
            assert teacher.meter.text == (
                "1 calls, 100 + 20 tokens, at least 0.0000 USD (1 calls of unknown cost)"
            )


def test_a_timed_out_call_counts_as_its_worst_case() -> None:
    meter = Meter(TeacherBudget(usd=1.0), TeacherPrices(0.0, 1_000.0))
    meter.fail(meter.reserve(10, 600), may_be_charged=True)
    with pytest.raises(BudgetSpent, match=r"0\.4000 left and the next call may cost 0\.6000"):
        meter.reserve(10, 600)
    told = (
        "1 calls, 0 + 0 tokens, at least 0.0000 USD (1 calls of unknown cost, 0.6000 more at most)"
    )
    assert meter.text == told


async def test_answers_without_usage_fill_a_budget_by_their_worst_case(
    new_teacher: NewTeacher,
) -> None:
    """The price is known but the tokens are not: at most 20 are used, 0.02 USD per call."""
    script = {f"q{n}": [GOOD] for n in range(9)}
    prices = TeacherPrices(prompt=0.0, completion=1_000.0)
    async with serving(ScriptedEndpoint(script, usage=None)) as endpoint:
        async with new_teacher(endpoint, TeacherBudget(usd=0.0801), prices) as teacher:
            with pytest.raises(BudgetSpent):
                await teacher.ask_all([question(f"q{n}", max_tokens=20) for n in range(9)])
            assert teacher.meter.cost == Cost(0.0, 4)
            assert "at least 0.0000 USD (4 calls of unknown cost, 0.0800 more" in teacher.meter.text
        assert endpoint.calls() == 4


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with open_store(tmp_path):
        with pytest.raises(UsageError, match="another process works there"):
            with open_store(tmp_path):
                pass
