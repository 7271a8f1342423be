"""A limit in USD on a model whose price nobody knows: it would never be reached."""

from datetime import UTC, datetime

from tutti.tasks.serving.metering import find_price, read_price_book
from tutti.tasks.sweeps.plan.plan import Plan


def unpriced_line(plan: Plan) -> str:
    """What to say before such a sweep runs; empty where the price is known or nothing is limited.

    Raises PriceError for an invalid price file.
    """
    suite, model = plan.suite, plan.set_up.model
    asked = {"budget.usd": suite.budget.usd, "limits.attempt_usd": suite.limits.attempt_usd}
    limits = [name for name, usd in asked.items() if usd is not None]
    if not limits or model is None or model.prices is not None:
        return ""
    book, now = read_price_book(), datetime.now(UTC)
    names = (plan.set_up.served_name, suite.model)
    if any(find_price(book, name, now) is not None for name in names):
        return ""
    return (
        f"{' and '.join(limits)}: the price of {suite.model} is unknown, so its calls do not "
        "count; state `prices` in its entry of models.yaml"
    )
