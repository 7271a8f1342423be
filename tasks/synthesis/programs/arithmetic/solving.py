"""Solver of the office's tasks from their slots; it computes itself, without the calculator."""

from datetime import date, datetime
from fractions import Fraction

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.programs.arithmetic.templates import money
from tutti.tasks.synthesis.programs.base.program import Reading, Slots, use


def solve_sum(task: DomainTask) -> Oracle:
    """Return the answer to the user. Raises LookupError if the results lack a needed value."""
    value = money((yield from SOLVERS[task.template](task.slots)))
    if task.slots["report"]:
        yield from use("record_result", report_id=task.slots["report"], value=value)
    return f"The result is {value}."


def _order(slots: Slots) -> Reading:
    total = Fraction(0)
    for count, product in (yield from _basket(slots["basket"])):
        total += count * Fraction(str(product["price"]))
    customer = yield from use("find_customer", name=slots["customer"])
    return total * (1 - Fraction(customer["discount_percent"], 100))


def _weight(slots: Slots) -> Reading:
    total = Fraction(0)
    for count, product in (yield from _basket(slots["basket"])):
        weight, unit = product["weight"], product["weight_unit"]
        if unit != "kg":
            asked = {"value": weight, "source": unit, "target": "kg"}
            weight = (yield from use("convert", **asked))["value"]
        total += count * Fraction(str(weight))
    return total


def _average(slots: Slots) -> Reading:
    prices = []
    for name in slots["names"].split(";"):
        prices.append(Fraction(str((yield from _product(name))["price"])))
    return sum(prices, Fraction(0)) / len(prices)


def _recipe(slots: Slots) -> Reading:
    recipe = yield from use("recipe_of", name=slots["recipe"])
    a_serving = Fraction(0)
    for line in recipe["lines"]:
        product = yield from use("get_product", product_id=line["product_id"])
        a_serving += line["amount"] * Fraction(str(product["price"])) / recipe["servings"]
    return a_serving * int(slots["servings"])


def _usage(slots: Slots) -> Reading:
    customer = yield from use("find_customer", name=slots["customer"])
    found = yield from use("readings_of", customer_id=customer["customer_id"])
    kwh = {each["date"]: each["kwh"] for each in found["readings"]}
    passed = date.fromisoformat(slots["last"]) - date.fromisoformat(slots["first"])
    return Fraction(kwh[slots["last"]] - kwh[slots["first"]], passed.days)


def _stock(slots: Slots) -> Reading:
    found = yield from use("products_of", supplier=slots["supplier"])
    enough = [each for each in found["products"] if each["stock"] >= int(slots["least"])]
    return sum((each["stock"] * Fraction(str(each["price"])) for each in enough), Fraction(0))


def _speed(slots: Slots) -> Reading:
    trips = (yield from use("trips_of", line=slots["line"]))["trips"]
    (trip,) = (each for each in trips if each["departs"].startswith(slots["day"]))
    passed = datetime.fromisoformat(trip["arrives"]) - datetime.fromisoformat(trip["departs"])
    km = trip["distance_km"] + int(slots["extra"])
    return km / Fraction(int(passed.total_seconds()), 3600)


def _basket(words: str) -> Reading:
    """Return the counts and products of ``3 x name;5 x name``."""
    found = []
    for part in words.split(";"):
        count, _, name = part.partition(" x ")
        found.append((int(count), (yield from _product(name))))
    return found


def _product(name: str) -> Reading:
    found = yield from use("find_products", name=name)
    for each in found["products"]:
        if each["name"] == name:
            return each
    raise LookupError(f"no product {name}")


SOLVERS = {
    "order": _order,
    "weight": _weight,
    "average": _average,
    "recipe": _recipe,
    "usage": _usage,
    "stock": _stock,
    "speed": _speed,
}
