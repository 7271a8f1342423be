"""Models of a sweep whose price is unknown: a limit in USD does not count their calls."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from tutti.tasks.serving import Model
from tutti.tasks.serving.metering import find_price, read_price_book
from tutti.tasks.sweeps.plan.plan import Plan


class UnpricedModels(NamedTuple):
    """Names of models without a price."""

    own: list[str]
    """Whose calls are an attempt's own: the measured model and its experts."""
    aside: list[str]
    """Whose are not: judge and user."""


def unpriced_models(plan: Plan) -> UnpricedModels:
    """The models of a plan without a price. Raises PriceError for an invalid price file."""
    suite, config = plan.suite, plan.config
    served = [*config.roles.experts.values()]
    own = {one.name: one.model for one in served}
    if config.model is not None:
        own[suite.model] = config.model
    roles = (config.roles.judge, config.roles.user)
    aside = {one.name: one.model for one in roles if one is not None}
    return UnpricedModels(_unpriced(own), _unpriced(aside))


def unpriced_line(plan: Plan, limits_usd: bool = False) -> str:
    """Which models a sweep's limits in USD do not count; empty where there are none, or no limits.

    `limits_usd`: whether the run has a limit besides the suite's own. Raises PriceError for an
    invalid price file.
    """
    suite = plan.suite
    asked = {
        "budget.usd": suite.budget.usd is not None or limits_usd,
        "limits.attempt_usd": suite.limits.attempt_usd is not None,
    }
    limits = [name for name, is_asked in asked.items() if is_asked]
    unpriced = unpriced_models(plan) if limits else UnpricedModels([], [])
    if not (names := sorted({*unpriced.own, *unpriced.aside})):
        return ""
    return (
        f"{' and '.join(limits)}: the price of {', '.join(names)} is unknown, so its calls do not "
        "count; state `prices` in its entry of models.yaml"
    )


def _unpriced(models: Mapping[str, Model]) -> list[str]:
    without = {name: model for name, model in models.items() if model.prices is None}
    if not without:
        return []
    book, now = read_price_book(), datetime.now(UTC)
    return [
        name
        for name, model in without.items()
        if all(find_price(book, each, now) is None for each in (model.served_name or name, name))
    ]


def greedy_line(plan: Plan) -> str:
    """What to say of such a sweep before it runs; empty for one trial, or where answers vary.

    A harness of the user's own has its own sampling, and is not judged.
    """
    suite = plan.suite
    trials = suite.samples_of_each
    if trials < 2 or suite.harness.command is not None or suite.sampling.temperature > 0:
        return ""
    return (
        f"{trials} trials of each task at temperature 0: a model that decodes greedily repeats its "
        "answer, so pass@k and majority@k show little; set `sampling.temperature`, such as 0.7"
    )
