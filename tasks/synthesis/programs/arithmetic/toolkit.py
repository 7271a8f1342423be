"""Tools of an office that looks figures up and computes with them. Runs in the sandbox only."""

import ast
from datetime import date, datetime
from fractions import Fraction
from typing import Any, NoReturn

Database = dict[str, dict[str, dict[str, Any]]]
MOST_CHARACTERS = 600
PLACES = 12
LARGEST = 1e15
"""Of a given number: a larger one would only cost time."""
FACTORS = {
    "kg": ("mass", Fraction(1)),
    "g": ("mass", Fraction(1, 1000)),
    "lb": ("mass", Fraction("0.45359237")),
    "oz": ("mass", Fraction("0.028349523125")),
    "hours": ("time", Fraction(1)),
    "minutes": ("time", Fraction(1, 60)),
    "km": ("length", Fraction(1)),
    "miles": ("length", Fraction("1.609344")),
}


def refuse(why: str) -> NoReturn:
    """End a call; what runs a toolkit gives it `ToolError`."""
    raise ToolError(why)  # type: ignore[name-defined]  # noqa: F821


def half_up(value: Fraction, places: int) -> str:
    """A number with so many decimals; a half is rounded away from zero."""
    scaled = abs(value) * 10**places
    whole = (scaled.numerator * 2 + scaled.denominator) // (2 * scaled.denominator)
    digits = str(whole).rjust(places + 1, "0")
    sign = "-" if value < 0 and whole else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def shown(value: Fraction) -> str:
    """A number without needless zeros, to 12 decimals."""
    text = half_up(value, PLACES)
    return text.rstrip("0").rstrip(".")


def number(value: Any) -> Fraction:
    """A number that a caller gave."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        refuse(f"not a number: {value!r}")
    try:
        small = abs(float(value)) < LARGEST
        return Fraction(str(value)) if small else refuse(f"too large: {value!r}")
    except ValueError:
        refuse(f"not a number: {value!r}")


def evaluated(node: ast.AST) -> Fraction:
    """The value of an expression's tree."""
    if isinstance(node, ast.Expression):
        return evaluated(node.body)
    if isinstance(node, ast.Constant):
        return number(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -evaluated(node.operand)
    if isinstance(node, ast.BinOp):
        return combined(node.op, evaluated(node.left), evaluated(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return applied(node.func.id, [evaluated(each) for each in node.args])
    refuse("only numbers, + - * / ( ), average, percent and round can be calculated")


def combined(operator: ast.AST, left: Fraction, right: Fraction) -> Fraction:
    """The value of an operation."""
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Div):
        return left / right if right else refuse("division by zero")
    refuse("only + - * / can be calculated")


def applied(name: str, given: list[Fraction]) -> Fraction:
    """The value of a function."""
    if name == "average" and given:
        return sum(given, Fraction(0)) / len(given)
    if name == "percent" and len(given) == 2:
        return given[0] * given[1] / 100
    if name == "round" and len(given) == 2 and given[1] in range(7):
        return Fraction(half_up(given[0], int(given[1])))
    refuse(f"{name} cannot be calculated from {len(given)} numbers")


def calculate(db: Database, expression: str) -> dict[str, Any]:
    """The exact value of an expression."""
    if len(expression) > MOST_CHARACTERS:
        refuse(f"an expression has at most {MOST_CHARACTERS} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        refuse(f"not an expression: {expression!r}")
    value = evaluated(tree)
    body = tree.body
    if isinstance(body, ast.Call) and isinstance(body.func, ast.Name) and body.func.id == "round":
        return {"expression": expression, "value": half_up(value, int(evaluated(body.args[1])))}
    return {"expression": expression, "value": shown(value)}


def convert(db: Database, value: float, source: str, target: str) -> dict[str, Any]:
    """A quantity in another unit."""
    for unit in (source, target):
        if unit not in FACTORS:
            refuse(f"no unit {unit!r}; there are {', '.join(FACTORS)}")
    if FACTORS[source][0] != FACTORS[target][0]:
        refuse(f"{source} cannot be converted into {target}")
    result = number(value) * FACTORS[source][1] / FACTORS[target][1]
    return {"value": shown(result), "unit": target}


def days_between(db: Database, first: str, second: str) -> dict[str, Any]:
    """The days from a date to another."""
    try:
        return {"days": (date.fromisoformat(second) - date.fromisoformat(first)).days}
    except (TypeError, ValueError):
        refuse("a date is YYYY-MM-DD")


def minutes_between(db: Database, first: str, second: str) -> dict[str, Any]:
    """The minutes from a time to another."""
    try:
        passed = datetime.fromisoformat(second) - datetime.fromisoformat(first)
        return {"minutes": int(passed.total_seconds()) // 60}
    except (TypeError, ValueError):
        refuse("a time is YYYY-MM-DDTHH:MM")


def found_by(db: Database, table: str, field: str, value: str) -> dict[str, Any]:
    """The one record with a value."""
    for record in db[table].values():
        if record[field] == value:
            return record
    refuse(f"no {table} with {field} {value!r}")


def find_products(db: Database, name: str) -> dict[str, Any]:
    """The products whose names contain a text."""
    found = [each for each in db["products"].values() if name in each["name"]]
    return {"products": found} if found else refuse(f"no product is called {name!r}")


def get_product(db: Database, product_id: str) -> dict[str, Any]:
    """A product."""
    return found_by(db, "products", "product_id", product_id)


def products_of(db: Database, supplier: str) -> dict[str, Any]:
    """The products of a supplier."""
    supplier_id = found_by(db, "suppliers", "name", supplier)["supplier_id"]
    found = [each for each in db["products"].values() if each["supplier"] == supplier_id]
    return {"supplier": supplier, "products": found}


def find_customer(db: Database, name: str) -> dict[str, Any]:
    """A customer."""
    return found_by(db, "customers", "name", name)


def recipe_of(db: Database, name: str) -> dict[str, Any]:
    """A recipe and its lines."""
    recipe = found_by(db, "recipes", "name", name)
    lines = [
        {"product_id": each["product"], "amount": each["amount"]}
        for each in db["recipe_lines"].values()
        if each["recipe"] == recipe["recipe_id"]
    ]
    return {"recipe_id": recipe["recipe_id"], "servings": recipe["servings"], "lines": lines}


def readings_of(db: Database, customer_id: str) -> dict[str, Any]:
    """The readings of a customer's meter."""
    found_by(db, "customers", "customer_id", customer_id)
    found = [
        {"date": each["date"], "kwh": each["kwh"]}
        for each in db["readings"].values()
        if each["customer"] == customer_id
    ]
    return {"customer_id": customer_id, "readings": found}


def trips_of(db: Database, line: str) -> dict[str, Any]:
    """The trips of a line."""
    return {"line": line, "trips": [e for e in db["trips"].values() if e["line"] == line]}


def list_suppliers(db: Database) -> dict[str, Any]:
    """The suppliers."""
    return {"suppliers": list(db["suppliers"].values())}


def cheapest_product(db: Database, supplier: str) -> dict[str, Any]:
    """The cheapest product of a supplier."""
    found = products_of(db, supplier)["products"]
    return min(found, key=price) if found else refuse(f"{supplier} delivers nothing")


def price(product: dict[str, Any]) -> float:
    """What a product costs."""
    return float(product["price"])


def get_report(db: Database, report_id: str) -> dict[str, Any]:
    """A report."""
    return found_by(db, "reports", "report_id", report_id)


def record_result(db: Database, report_id: str, value: str) -> dict[str, Any]:
    """Write a result into a report."""
    report = get_report(db, report_id)
    report["result"] = str(value)
    return report


def open_reports_only(db: Database, name: str, arguments: dict[str, Any]) -> str:
    """Whether a call would write into a report that is closed."""
    report = db["reports"].get(arguments.get("report_id", ""))
    closed = name == "record_result" and report is not None and report["status"] == "closed"
    return "the report is closed" if closed else ""


def two_decimals_only(db: Database, name: str, arguments: dict[str, Any]) -> str:
    """Whether a call would record a value without exactly two decimals."""
    if name != "record_result":
        return ""
    whole, _, decimals = str(arguments.get("value", "")).removeprefix("-").partition(".")
    right = whole.isdigit() and decimals.isdigit() and len(decimals) == 2
    return "" if right else "a recorded result has 2 decimals"
