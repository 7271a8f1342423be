"""Tests of expert calls: usage is summed, and the characters per token are learned for each
model."""

import asyncio

import pytest

from tests.agents.orchestrator.play import Script, expert, experts_of
from tutti.tasks.agents.models.context import FIRST_RATIO, Message
from tutti.tasks.agents.orchestrator.agent_file import Expert
from tutti.tasks.agents.orchestrator.escalate import Consultation, TokenMeasures

SMALL = Expert.model_validate(expert("small", 2.0, max_tokens=1000))
OTHER = Expert.model_validate(expert("other"))


def ask(measures: TokenMeasures, messages: list[Message], times: int = 1) -> Consultation:
    models = {"small": Script(*["yes"] * times, cost_usd=0.25)}
    consultation = Consultation(experts_of(models), measures, 3)
    for _ in range(times):
        assert asyncio.run(consultation.ask(SMALL, messages)) == "yes"
    assert models["small"].steps == [3] * times and models["small"].tools == [()] * times
    return consultation


def test_money_is_added_up() -> None:
    done = ask(TokenMeasures(), [{"role": "user", "content": "x"}], times=2)
    assert done.cost.usd == 0.5


def test_the_length_of_a_token_is_learned_from_the_engine() -> None:
    """The script counts 10 tokens, 8 of them the template's; each model has its own ratio."""
    measures = TokenMeasures()
    assert measures.tokens(SMALL)("x" * 300) == 300 / FIRST_RATIO
    ask(measures, [{"role": "user", "content": "x" * 2000}])
    assert measures.tokens(SMALL)("x" * 3000) == pytest.approx(3)
    assert measures.tokens(OTHER)("x" * 300) == 300 / FIRST_RATIO


def test_an_image_is_no_measure_of_text() -> None:
    measures = TokenMeasures()
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    ask(measures, [{"role": "user", "content": [image]}])
    assert measures.tokens(SMALL)("x" * 300) == 300 / FIRST_RATIO


def test_the_most_that_a_call_may_cost() -> None:
    """The highest cost is the full reply length plus the prompt's text with eight tokens added."""
    most = TokenMeasures().most_usd(SMALL, [{"role": "user", "content": "x" * 30}])
    assert most == (18 * 2.0 + 1000 * 2.0) / 1e6
