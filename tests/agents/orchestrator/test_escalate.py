"""Tests of verification and escalation: refused answers go to more expensive experts, within the
budget."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.orchestrator.play import PROBLEM, Script, expert, experts_of
from tutti.tasks.agents.models.context import Message
from tutti.tasks.agents.models.model import ContextExceeded
from tutti.tasks.agents.models.prompts import last_boxed
from tutti.tasks.agents.orchestrator.agent_file import Tool
from tutti.tasks.agents.orchestrator.escalate import (
    AnswerOutcome,
    AnswerTool,
    Consultation,
    TokenMeasures,
)

TOOL = Tool.model_validate(
    {
        "description": "Answer.",
        "experts": {
            "dear": expert("big", 8.0, max_tokens=1000),
            "middle": expert("mid", 2.0, max_tokens=1000),
            "cheap": expert("small", 1.0, max_tokens=1000),
        },
    }
)
RIGHT, WRONG = "Fine.\nVerdict: right", "Off by one.\nVerdict: wrong"


def settle(
    models: dict[str, Script], alias: str, budget_usd: float | None, tool: Tool = TOOL
) -> tuple[AnswerOutcome, float]:
    """Return the outcome and its cost."""
    measures = TokenMeasures()
    consultation = Consultation(experts_of(models), measures, 1)
    answering = AnswerTool(tool, PROBLEM, (), last_boxed, consultation, measures)
    settled = asyncio.run(answering.settle(tool.experts[alias], budget_usd))
    return settled, consultation.cost.known_usd


def test_without_a_budget_nobody_else_is_asked() -> None:
    settled, _ = settle({"small": Script("\\boxed{1}")}, "cheap", None)
    assert settled == AnswerOutcome("\\boxed{1}", "cheap", ())
    settled, _ = settle({"small": Script("no box")}, "cheap", None)
    assert settled == AnswerOutcome(None, "cheap", ())


@pytest.mark.parametrize(("price", "asked"), [(0.000001, ["mid", "big"]), (None, ["mid"])])
def test_a_call_of_unknown_cost_takes_its_highest_possible_cost_from_the_budget(
    price: float | None, asked: list[str]
) -> None:
    """The budget covers the highest cost of one call. The next call is sent only if this one is
    known to have cost less."""
    models = {
        "small": Script("no box", RIGHT),
        "mid": Script("no box", cost_usd=price),
        "big": Script("\\boxed{1}"),
    }
    settle(models, "cheap", 0.0099)
    assert [name for name in ("mid", "big") if models[name].seen] == asked


def test_a_verified_answer_stands() -> None:
    """An answer that the verifier accepts is final; the verifier is the cheapest expert with
    another model."""
    settled, _ = settle({"small": Script("\\boxed{1}"), "mid": Script(RIGHT)}, "cheap", 1.0)
    assert settled == AnswerOutcome("\\boxed{1}", "cheap", ())
    settled, _ = settle({"big": Script("\\boxed{1}"), "small": Script(RIGHT)}, "dear", 1.0)
    assert settled.alias == "dear"


def test_a_refused_answer_goes_to_the_next_dearer_with_the_reason() -> None:
    models = {
        "small": Script("\\boxed{1}", RIGHT),
        "mid": Script(WRONG, "\\boxed{2}"),
    }
    settled, _ = settle(models, "cheap", 1.0)
    assert (settled.text, settled.alias) == ("\\boxed{2}", "middle")
    (refused,) = settled.refused
    assert (refused.alias, refused.answer) == ("cheap", "1") and "Off by one" in refused.why
    assert "Off by one" in models["mid"].prompt(1), "who answers next sees why"


def test_the_dearest_has_the_last_word() -> None:
    """The most expensive expert's answer is final, whether refused or not."""
    settled, _ = settle({"big": Script("\\boxed{3}"), "small": Script(WRONG)}, "dear", 1.0)
    assert settled == AnswerOutcome("\\boxed{3}", "dear", ())


def test_an_unreadable_answer_is_refused_without_a_verifier() -> None:
    models = {"small": Script("no box", RIGHT), "mid": Script("\\boxed{2}")}
    settled, _ = settle(models, "cheap", 1.0)
    assert (
        settled.alias == "middle" and settled.refused[0].why == "no final answer can be read in it"
    )


def test_an_expert_without_room_is_passed_over() -> None:
    """An expert whose context is too small is skipped, and the last answer is final."""
    models = {"small": Script("\\boxed{1}"), "mid": Script(ContextExceeded("full"))}
    settled, _ = settle(models, "cheap", 1.0)
    assert settled == AnswerOutcome("\\boxed{1}", "cheap", ())


def test_nothing_begins_that_might_cost_more_than_is_left() -> None:
    """A verifier's 1,000 tokens at 2 USD per million cost 0.002 USD."""
    settled, cost = settle({"small": Script("\\boxed{1}", cost_usd=0.5)}, "cheap", 0.0019)
    assert settled.alias == "cheap" and cost == 0.5, "the first answer is not on this budget"


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    st.floats(0.0001, 0.05),
    st.lists(st.sampled_from([RIGHT, WRONG, "\\boxed{1}", "no box", ""]), min_size=9, max_size=9),
    st.floats(0.0, 1.0),
)
def test_further_calls_never_cost_more_than_the_budget(
    budget: float, replies: list[str], used: float
) -> None:
    """This holds for all replies if a call costs at most what its tokens can cost."""
    spent: list[float] = []

    class Charging(Script):
        def __init__(self, price: float) -> None:
            super().__init__(*replies, cost_usd=used * price * 1000 / 1e6)

        async def complete(self, *given: object, **more: object) -> object:  # type: ignore[override]
            reply = await super().complete(*given, **more)  # type: ignore[arg-type]
            spent.append(reply.cost_usd or 0.0)
            return reply

    models: dict[str, Script] = {"big": Charging(8), "mid": Charging(2), "small": Charging(1)}
    settled, _ = settle(models, "cheap", budget)
    assert sum(spent[1:]) <= budget + 1e-12
    assert settled.text is None or last_boxed(settled.text)


@pytest.mark.parametrize("alias", ["cheap", "dear"])
def test_a_single_model_verifies_itself(alias: str) -> None:
    """With a single model, the model verifies its own answers."""
    experts = {"dear": expert("one", 8.0), "cheap": expert("one", 1.0)}
    tool = Tool.model_validate({"description": "x", "experts": experts})
    settled, _ = settle({"one": Script("\\boxed{1}", RIGHT)}, alias, 1.0, tool)
    assert settled.alias == alias and settled.refused == ()


def test_the_problem_is_not_changed() -> None:
    before: list[Message] = [dict(message) for message in PROBLEM]
    settle({"small": Script("\\boxed{1}", RIGHT), "mid": Script(WRONG, "\\boxed{2}")}, "cheap", 1.0)
    assert before == PROBLEM
