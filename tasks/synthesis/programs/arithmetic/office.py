"""The office's tables, records, tools and rules."""

from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import (
    Domain,
    FieldSpec,
    Parameter,
    Rule,
    TableSpec,
    ToolSpec,
)
from tutti.tasks.synthesis.programs.invented import NameMaker

TOOLKIT = Path(__file__).with_name("toolkit.py")
WARES = "flour oil rope paint wire soap tea salt glue wax".split()
VARIANTS = ("extra", "second choice", "old stock", "sample", "export", "bulk")
"""Of a product's name, one for each distractor."""
PRODUCT = "product_id name supplier price unit stock weight weight_unit".split()
TRIP = "trip_id line departs arrives distance_km".split()
REPORT = "report_id title status result".split()

Tables = dict[str, dict[str, dict[str, Any]]]


def _spec(name: str, key: str, *fields: FieldSpec) -> TableSpec:
    return TableSpec(name=name, key=key, fields=(FieldSpec(name=key, kind="text"), *fields))


def _text(name: str, refers_to: str = "", one_of: tuple[str, ...] = ()) -> FieldSpec:
    return FieldSpec(name=name, kind="text", refers_to=refers_to, one_of=one_of)


def _count(name: str, least: int, most: int) -> FieldSpec:
    return FieldSpec(name=name, kind="integer", least=least, most=most)


TABLES = (
    _spec("suppliers", "supplier_id", _text("name")),
    _spec(
        "products",
        "product_id",
        _text("name"),
        _text("supplier", "suppliers"),
        FieldSpec(name="price", kind="number", least=1, most=100, about="crowns a unit"),
        _text("unit", one_of=("bag", "box", "can")),
        _count("stock", 3, 400),
        _count("weight", 1, 60),
        _text("weight_unit", one_of=("kg", "lb", "oz")),
    ),
    _spec("customers", "customer_id", _text("name"), _count("discount_percent", 2, 30)),
    _spec("recipes", "recipe_id", _text("name"), _count("servings", 3, 12)),
    _spec(
        "recipe_lines",
        "line_id",
        _text("recipe", "recipes"),
        _text("product", "products"),
        _count("amount", 2, 9),
    ),
    _spec(
        "readings",
        "reading_id",
        _text("customer", "customers"),
        FieldSpec(name="date", kind="date"),
        _count("kwh", 1000, 99999),
    ),
    _spec(
        "trips",
        "trip_id",
        _text("line"),
        FieldSpec(name="departs", kind="date", about="date and time"),
        FieldSpec(name="arrives", kind="date", about="date and time"),
        _count("distance_km", 30, 900),
    ),
    _spec(
        "reports",
        "report_id",
        _text("title"),
        _text("status", one_of=("open", "closed")),
        FieldSpec(name="result", kind="text", optional=True),
    ),
)


def build_office(rng: Random, operands: int, distractors: int) -> Tables:
    """An instance's records."""
    made = NameMaker(rng)
    records: Tables = {table.name: {} for table in TABLES}
    for number in range(12):
        key = f"SU{number + 11}"
        records["suppliers"][key] = {"supplier_id": key, "name": f"{made.name()} & Sons"}
    _add_products(rng, made, records, distractors)
    for number, percent in enumerate(rng.choices(range(2, 31), k=30)):
        key = f"CU{number + 101}"
        fields = {"name": f"{made.name()} {made.name()}", "discount_percent": percent}
        records["customers"][key] = {"customer_id": key, **fields}
        _add_readings(rng, records, key, 3 + distractors // 2)
    _add_recipes(rng, made, records, operands)
    _add_trips(rng, made, records)
    for number in range(40):
        key = f"RE{rng.randrange(10, 100)}{number + 10}"
        status = "closed" if number % 4 == 0 else "open"
        values = (key, f"{made.name()} sheet", status, None)
        records["reports"][key] = dict(zip(REPORT, values, strict=True))
    return records


def _add_products(rng: Random, made: NameMaker, records: Tables, distractors: int) -> None:
    """Each sixth product has variants of its name."""
    names = [f"{made.name()} {rng.choice(WARES)}" for _ in range(60)]
    names += [f"{name} {kind}" for name in names[::6] for kind in VARIANTS[:distractors]]
    for number, name in enumerate(names):
        key = f"PR{number + 301}"
        supplier = rng.choice(list(records["suppliers"]))
        price, unit = rng.randrange(101, 9990) / 100, rng.choice(("bag", "box", "can"))
        weight = rng.randint(1, 60), rng.choice(("kg", "lb", "oz"))
        values = (key, name, supplier, price, unit, rng.randint(3, 400), *weight)
        records["products"][key] = dict(zip(PRODUCT, values, strict=True))


def _add_readings(rng: Random, records: Tables, customer: str, count: int) -> None:
    on, kwh = date(2031, 1, 1) + timedelta(days=rng.randrange(60)), rng.randrange(1000, 40_000)
    for _ in range(count):
        key = f"RD{len(records['readings']) + 1001}"
        fields = {"customer": customer, "date": on.isoformat(), "kwh": kwh}
        records["readings"][key] = {"reading_id": key, **fields}
        on, kwh = on + timedelta(days=rng.randint(13, 70)), kwh + rng.randrange(100, 4000)


def _add_recipes(rng: Random, made: NameMaker, records: Tables, operands: int) -> None:
    for number in range(24):
        key = f"RC{number + 51}"
        fields = {"name": f"{made.name()} stew", "servings": rng.randint(3, 12)}
        records["recipes"][key] = {"recipe_id": key, **fields}
        for product in rng.sample(list(records["products"]), operands):
            line = f"LI{len(records['recipe_lines']) + 2001}"
            parts = {"recipe": key, "product": product, "amount": rng.randint(2, 9)}
            records["recipe_lines"][line] = {"line_id": line, **parts}


def _add_trips(rng: Random, made: NameMaker, records: Tables) -> None:
    lines = [f"{made.name()} Express" for _ in range(18)]
    for number in range(54):
        key = f"TR{number + 501}"
        departs = datetime(2031, 1 + number % 12, rng.randint(1, 28), rng.randrange(24))
        arrives = departs + timedelta(minutes=3 * rng.randint(20, 200))
        times = [each.isoformat(timespec="minutes") for each in (departs, arrives)]
        values = (key, lines[number // 3], *times, rng.randint(30, 900))
        records["trips"][key] = dict(zip(TRIP, values, strict=True))


def build_domain(records: Tables, lineage: dict[str, Any]) -> Domain:
    """An instance as a domain."""
    return Domain(
        name="arithmetic",
        about="Policy of the figures office",
        tables=TABLES,
        records=records,
        toolkit=TOOLKIT.read_text(),
        tools=TOOLS,
        rules=RULES,
        lineage=lineage,
    )


def _given(name: str, about: str, kind: Any = "text") -> Parameter:
    return Parameter(name=name, kind=kind, about=about)


def _reads(
    name: str, about: str, parameters: tuple[Parameter, ...], returns: tuple[str, ...]
) -> ToolSpec:
    return ToolSpec(name=name, kind="READ", about=about, parameters=parameters, returns=returns)


def _computes(
    name: str, about: str, parameters: tuple[Parameter, ...], returns: tuple[str, ...]
) -> ToolSpec:
    return ToolSpec(name=name, kind="GENERIC", about=about, parameters=parameters, returns=returns)


_SUPPLIER = _given("supplier", "the supplier's whole name")
_SPAN = (_given("first", "from"), _given("second", "to"))
TOOLS = (
    _reads(
        "find_products",
        "Find the products whose names contain a text: price a unit, stock, weight of a unit.",
        (_given("name", "a part of the name"),),
        ("products",),
    ),
    _reads("get_product", "A product.", (_given("product_id", "its id"),), tuple(PRODUCT)),
    _reads("products_of", "All products of a supplier.", (_SUPPLIER,), ("supplier", "products")),
    _reads(
        "find_customer",
        "A customer with the discount in per cent.",
        (_given("name", "the whole name"),),
        ("customer_id", "name", "discount_percent"),
    ),
    _reads(
        "recipe_of",
        "A recipe: its servings, and of each product how many units it takes.",
        (_given("name", "the whole name"),),
        ("recipe_id", "servings", "lines"),
    ),
    _reads(
        "readings_of",
        "The readings of a customer's meter in kWh.",
        (_given("customer_id", "the customer's id"),),
        ("customer_id", "readings"),
    ),
    _reads("trips_of", "The trips of a line.", (_given("line", "its name"),), ("line", "trips")),
    _computes(
        "calculate",
        "The exact value of an expression of numbers with + - * / ( ), average(a, b, ...), "
        "percent(p, a) for p per cent of a, and round(a, places), which rounds half up.",
        (_given("expression", "the expression"),),
        ("expression", "value"),
    ),
    _computes(
        "convert",
        "Convert a quantity: kg, g, lb, oz; hours, minutes; km, miles.",
        (
            _given("value", "how much", "number"),
            _given("source", "its unit"),
            _given("target", "the unit wanted"),
        ),
        ("value", "unit"),
    ),
    _computes("days_between", "Days from a date to another.", _SPAN, ("days",)),
    _computes("minutes_between", "Minutes from a time to another.", _SPAN, ("minutes",)),
    _reads("get_report", "A report.", (_given("report_id", "its id"),), tuple(REPORT)),
    ToolSpec(
        name="record_result",
        kind="WRITE",
        about="Write a result into a report.",
        parameters=(_given("report_id", "its id"), _given("value", "the result's digits")),
        changes=("reports.result",),
        returns=tuple(REPORT),
    ),
    _reads("list_suppliers", "All suppliers.", (), ("suppliers",)),
    _reads("cheapest_product", "A supplier's cheapest product.", (_SUPPLIER,), tuple(PRODUCT)),
)
SPARE = ("list_suppliers", "cheapest_product", "convert", "days_between", "trips_of", "recipe_of")
"""The tools that may be offered beside those that a task needs, in this order."""
RULES = (
    Rule(
        id="open_reports",
        text="Write results into open reports only.",
        function="open_reports_only",
    ),
    Rule(
        id="two_decimals",
        text="Round results half up, only at the end; a recorded result has exactly two decimals.",
        function="two_decimals_only",
    ),
    Rule(id="looked_up", text="Use the figures of the tables; never estimate."),
)
