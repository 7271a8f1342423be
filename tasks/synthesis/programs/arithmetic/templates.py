"""The office's tasks: the value to compute, its records, and the words of the question.

All values are exact fractions until they are rounded half up to two decimals, as the scenario says.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Action, Domain, DomainSpec, DomainTask, Scenario
from tutti.tasks.synthesis.programs.base.program import (
    Knobs,
    call,
    offered_tools,
    shared_split,
    split_of,
)

HELD_OUT = frozenset({"speed"})
SPARE = ("list_suppliers", "cheapest_product", "convert", "days_between", "trips_of", "recipe_of")
"""The tools that may be offered beside those that a task needs, in this order."""
OPENINGS = (
    "You need to know {}.",
    "You are asked for {} and have no figures at hand.",
    "You call the office to learn {}.",
    "Your accounts lack {}.",
)
ROUNDED = "Tell the agent that the result is rounded half up to 2 decimals at the end."
MOST_TERMS = 20
"""Most terms of a sum: an expression has at most 600 characters."""
KG = {"kg": Fraction(1), "lb": Fraction("0.45359237"), "oz": Fraction("0.028349523125")}


def money(value: Fraction) -> str:
    """Format a nonnegative value, rounded half up to two decimals."""
    cents = (value * 200 + 1) // 2
    return f"{cents // 100}.{cents % 100:02d}"


SPLITS = ("train", "train", "validation", "test")
"""For a random choice."""


@dataclass(frozen=True)
class Sum:
    """The result of a template."""

    asked: str
    lookups: Sequence[Action]
    expression: str
    """For `calculate`, unrounded."""
    value: Fraction
    entities: tuple[str, ...]
    slots: dict[str, str]
    operands: int


class Clerk:
    """Draws tasks from an instance and writes their text."""

    def __init__(self, domain: Domain, rng: Random, knobs: Knobs) -> None:
        self.domain, self.rng, self.knobs = domain, rng, knobs
        self._keys: dict[tuple[str, str], list[str]] = defaultdict(list)
        for table, records in domain.records.items():
            for key in records:
                self._keys[table, split_of(f"{table}/{key}")].append(key)
        self._reports = domain.records["reports"]
        self._closed = [k for k, each in self._reports.items() if each["status"] == "closed"]

    def draw(self, template: str) -> DomainTask | None:
        """Return a candidate of a template."""
        found = TEMPLATES[template](self)
        split = None if found is None else shared_split(template, found.entities, HELD_OUT)
        if found is None or split is None:
            return None
        value, report = money(found.value), self._report(split)
        actions = [*found.lookups, call("calculate", expression=f"round({found.expression}, 2)")]
        if report:
            actions.append(call("get_report", report_id=report))
            actions.append(call("record_result", report_id=report, value=value))
        needed = sorted({each.name for each in actions} | {"record_result"})
        tools = offered_tools(self.domain, needed, self.knobs["tools"], SPARE)
        written = f" It belongs into report {report}." if report else ""
        scenario = Scenario(
            reason=self.rng.choice(OPENINGS).format(found.asked) + written,
            known="All that you know is in these words.",
            instructions=ROUNDED + " Ask for the exact figure with its 2 decimals.",
        )
        closed = self.rng.choice(self._closed)
        forbidden = [call("record_result", report_id=closed, value=value)]
        if report:
            forbidden.append(call("record_result", report_id=report, value=f"{value}5"))
        return DomainTask(
            family=self.domain.name,
            template=template,
            split=split,
            sources=found.entities + ((f"reports/{report}",) if report else ()),
            difficulty={
                "operands": found.operands,
                "distractors": self.knobs["distractors"],
                "tools": len(tools),
                "steps": len(actions),
            },
            slots=found.slots | {"report": report},
            world=DomainSpec(
                domain=self.domain.domain_id,
                scenario=scenario,
                actions=tuple(actions),
                communicate=(value,),
                rules=("two_decimals", "open_reports") if report else ("two_decimals",),
                forbidden=tuple(forbidden),
                tools=tools,
            ),
        )

    def _report(self, split: str) -> str:
        """A random open report of a split, in which the result is recorded; or an empty string."""
        if self.rng.randrange(100) >= self.knobs["recorded"]:
            return ""
        keys = [k for k in self._keys["reports", split] if self._reports[k]["status"] == "open"]
        return self.rng.choice(keys) if keys else ""

    def pick(self, table: str, split: str | None = None) -> dict[str, Any]:
        """Return a random record, of a split if given."""
        keys = self._keys[table, split or self.rng.choice(SPLITS)]
        return self.domain.records[table][self.rng.choice(keys)] if keys else {}


def _exact(value: float | str) -> Fraction:
    return Fraction(str(value))


def _weighted(pairs: Sequence[tuple[Any, Any]]) -> tuple[str, Fraction]:
    """Return a sum of products of two numbers: the expression, and its value."""
    terms = " + ".join(f"{count} * {each}" for count, each in pairs)
    return terms, sum((count * _exact(each) for count, each in pairs), Fraction(0))


def _products(clerk: Clerk) -> list[dict[str, Any]]:
    """Return different products of one split, at most the number of the knob `operands`."""
    wanted = clerk.rng.randint(max(1, clerk.knobs["operands"] - 2), clerk.knobs["operands"])
    split = clerk.rng.choice(SPLITS)
    found = {each["product_id"]: each for each in (clerk.pick("products", split),) if each}
    while found and len(found) < wanted:
        each = clerk.pick("products", split)
        found[each["product_id"]] = each
    return list(found.values())


def _entities(products: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(f"products/{each['product_id']}" for each in products)


def _basket(clerk: Clerk) -> tuple[list[dict[str, Any]], list[int], str, dict[str, str]]:
    """Return products, their counts, both in words, and the slots."""
    products = _products(clerk)
    counts = [clerk.rng.randint(3, 40) for _ in products]
    parts = [f"{n} x {each['name']}" for n, each in zip(counts, products, strict=True)]
    return products, counts, "; ".join(parts), {"basket": ";".join(parts)}


def _order(clerk: Clerk) -> Sum | None:
    products, counts, words, slots = _basket(clerk)
    customer = clerk.pick("customers", split_of(_entities(products)[0])) if products else {}
    if not customer:
        return None
    prices, percent = [each["price"] for each in products], customer["discount_percent"]
    terms, total = _weighted(list(zip(counts, prices, strict=True)))
    lookups = [call("find_products", name=each["name"]) for each in products]
    lookups.append(call("find_customer", name=customer["name"]))
    return Sum(
        f"what {customer['name']} pays, after the customer's discount, for {words}",
        lookups,
        f"{terms} - percent({percent}, {terms})",
        total * (100 - percent) / 100,
        (*_entities(products), f"customers/{customer['customer_id']}"),
        slots | {"customer": customer["name"]},
        len(products),
    )


def _weight(clerk: Clerk) -> Sum | None:
    products, counts, words, slots = _basket(clerk)
    if not products:
        return None
    kgs, lookups = [], []
    for each in products:
        weight, unit = each["weight"], each["weight_unit"]
        lookups.append(call("find_products", name=each["name"]))
        if unit != "kg":
            lookups.append(call("convert", value=weight, source=unit, target="kg"))
        kgs.append(_decimal(weight * KG[unit]))
    terms, total = _weighted(list(zip(counts, kgs, strict=True)))
    asked = f"how many kg this delivery weighs: {words}"
    return Sum(asked, lookups, terms, total, _entities(products), slots, len(products))


def _decimal(value: Fraction) -> str:
    """Format an exact decimal of at most 12 places, as `convert` does."""
    whole, rest = divmod(value.numerator * 10**12 // value.denominator, 10**12)
    return f"{whole}.{rest:012d}".rstrip("0").rstrip(".")


def _average(clerk: Clerk) -> Sum | None:
    products = _products(clerk)
    if len(products) < 2:
        return None
    prices = [each["price"] for each in products]
    names = [each["name"] for each in products]
    return Sum(
        "the average price in crowns a unit (each product counts once) of " + "; ".join(names),
        [call("find_products", name=name) for name in names],
        f"average({', '.join(map(str, prices))})",
        sum(map(_exact, prices), Fraction(0)) / len(prices),
        _entities(products),
        {"names": ";".join(names)},
        len(products),
    )


def _recipe(clerk: Clerk) -> Sum | None:
    recipe = clerk.pick("recipes")
    if not recipe:
        return None
    records = clerk.domain.records
    key, people = recipe["recipe_id"], clerk.rng.randint(13, 90)
    lines = [each for each in records["recipe_lines"].values() if each["recipe"] == key]
    priced = [(each["amount"], records["products"][each["product"]]) for each in lines]
    terms, total = _weighted([(amount, each["price"]) for amount, each in priced])
    lookups = [call("recipe_of", name=recipe["name"])]
    lookups += [call("get_product", product_id=each["product_id"]) for _, each in priced]
    return Sum(
        f"what the products for {people} servings of {recipe['name']} cost in crowns (amounts in "
        "proportion, parts of units too)",
        lookups,
        f"({terms}) * {people} / {recipe['servings']}",
        total * people / recipe["servings"],
        (f"recipes/{key}",),
        {"recipe": recipe["name"], "servings": str(people)},
        len(lines),
    )


def _usage(clerk: Clerk) -> Sum | None:
    customer = clerk.pick("customers")
    if not customer:
        return None
    key, readings = customer["customer_id"], clerk.domain.records["readings"].values()
    own = [each for each in readings if each["customer"] == key]
    first, last = sorted(clerk.rng.sample(own, 2), key=lambda each: str(each["date"]))
    days = (date.fromisoformat(last["date"]) - date.fromisoformat(first["date"])).days
    lookups = [
        call("find_customer", name=customer["name"]),
        call("readings_of", customer_id=key),
        call("days_between", first=first["date"], second=last["date"]),
    ]
    return Sum(
        f"how many kWh a day {customer['name']} used on average from the reading of "
        f"{first['date']} to that of {last['date']}",
        lookups,
        f"({last['kwh']} - {first['kwh']}) / {days}",
        Fraction(last["kwh"] - first["kwh"], days),
        (f"customers/{key}",),
        {"customer": customer["name"], "first": first["date"], "last": last["date"]},
        2,
    )


def _stock(clerk: Clerk) -> Sum | None:
    supplier = clerk.pick("suppliers")
    if not supplier:
        return None
    key, products = supplier["supplier_id"], clerk.domain.records["products"].values()
    delivered = [each for each in products if each["supplier"] == key]
    if not delivered:
        return None
    least = int(clerk.rng.choice(delivered)["stock"])
    own = [each for each in delivered if each["stock"] >= least]
    if len(own) > MOST_TERMS:
        return None
    terms, total = _weighted([(each["stock"], each["price"]) for each in own])
    return Sum(
        f"what our stock of the products of {supplier['name']} is worth in crowns, counting only "
        f"products of which there are at least {least} units",
        [call("products_of", supplier=supplier["name"])],
        terms,
        total,
        (f"suppliers/{key}",),
        {"supplier": supplier["name"], "least": str(least)},
        len(own),
    )


def _speed(clerk: Clerk) -> Sum | None:
    trip = clerk.pick("trips", "test")
    if not trip:
        return None
    times = (trip["departs"], trip["arrives"])
    passed = datetime.fromisoformat(times[1]) - datetime.fromisoformat(times[0])
    minutes = int(passed.total_seconds()) // 60
    lookups = [
        call("trips_of", line=trip["line"]),
        call("minutes_between", first=times[0], second=times[1]),
    ]
    lookups.append(call("convert", value=minutes, source="minutes", target="hours"))
    in_hours = Fraction(minutes, 60)
    extra = clerk.rng.randint(1, 25)
    return Sum(
        f"the average speed of the trip of the {trip['line']} on {times[0][:10]}, with a detour of "
        f"{extra} km added to its distance: km divided by hours",
        lookups,
        f"({trip['distance_km']} + {extra}) / {_decimal(in_hours)}",
        (trip["distance_km"] + extra) / in_hours,
        (f"trips/{trip['trip_id']}",),
        {"line": trip["line"], "day": times[0][:10], "extra": str(extra)},
        2,
    )


TEMPLATES: dict[str, Callable[[Clerk], Sum | None]] = {
    "order": _order,
    "weight": _weight,
    "average": _average,
    "recipe": _recipe,
    "usage": _usage,
    "stock": _stock,
    "speed": _speed,
}
