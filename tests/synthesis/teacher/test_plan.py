"""Tests that the plan's calls equal those of a run with a faultless teacher."""

from tutti.tasks.synthesis.teacher import TeacherPrices, TeacherRequest, plan_teacher

REQUEST = TeacherRequest(topic="a clinic", tables=3, records=10, chunk=4, intents=7, evolutions=2)


def test_calls_are_counted_by_step() -> None:
    plan = plan_teacher(REQUEST, None, 4)
    steps = "tables 1, records 9, toolkit 1, policy 1, intents 1, tasks 7, evolution 14"
    assert plan.notes == [f"calls by step: {steps}"] and plan.calls == 34


def test_an_unknown_price_is_said() -> None:
    plan = plan_teacher(REQUEST, None, 4)
    assert plan.usd is None
    assert "price unknown" in plan.lines[0] and "estimates" in plan.lines[0]


def test_dollars_follow_from_tokens_and_minutes_from_concurrency() -> None:
    plan = plan_teacher(REQUEST, TeacherPrices(1.0, 10.0), 4)
    assert plan.usd == (plan.prompt_tokens + 10 * plan.completion_tokens) / 1e6
    assert plan_teacher(REQUEST, None, 1).seconds > plan.seconds > 0
