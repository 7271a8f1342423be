"""Tests that a limit in USD for a model without a price is reported before anything runs."""

from dataclasses import replace
from typing import Any

import pytest

from tests.sweeps.conftest import plan_of
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan import ServedModel
from tutti.tasks.sweeps.plan.estimate import unpriced_line, unpriced_models
from tutti.tasks.sweeps.plan.roles import Roles
from tutti.tasks.sweeps.spec import Budget, Suite


def model(**more: Any) -> Model:
    entry = {"provider": "litellm", "endpoint": "http://127.0.0.1:9", "context_tokens": 4096}
    return Model.model_validate(entry | more)


@pytest.mark.parametrize(
    ("budget", "entry", "is_said"),
    [
        (Budget(usd=1.0), {}, True),
        (Budget(usd=1.0), {"prices": {"prompt": 0.0}}, False),
        (Budget(minutes=5), {}, False),
        (Budget(), {}, False),
    ],
)
def test_a_limit_that_can_never_be_reached_is_said(
    budget: Budget, entry: dict[str, Any], is_said: bool
) -> None:
    plan = plan_of(Suite(model="mine", budget=budget), count=1)
    plan = replace(plan, config=replace(plan.config, model=model(**entry), served_name="mine"))
    line = unpriced_line(plan)
    assert ("budget.usd: the price of mine is unknown" in line) is is_said
    assert bool(line) is is_said


def test_other_models_without_a_price_are_said_too() -> None:
    """A run's own limit counts as the suite's, for example a night's."""
    priced, unpriced = model(prices={"prompt": 1.0}), model()
    plan = plan_of(Suite(model="mine"), count=1)
    roles = Roles(
        judge=ServedModel("grader", "engine:2", unpriced),
        user=ServedModel("user", "engine:3", priced),
        experts={"strong": ServedModel("big", "engine:4", unpriced)},
    )
    plan = replace(plan, config=replace(plan.config, model=priced, roles=roles))
    assert unpriced_models(plan) == (["big"], ["grader"])
    assert unpriced_line(plan) == ""
    assert "budget.usd: the price of big, grader is unknown" in unpriced_line(plan, True)
