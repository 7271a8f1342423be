"""The shop's tools and rules. Runs in the sandbox only, which gives it `ToolError`."""

import ast
import operator
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class ToolError(Exception):
        """What a tool raises to refuse a call."""


Record = dict[str, Any]
Db = dict[str, dict[str, Record]]
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _of(db: Db, table: str, key: str) -> Record:
    if key not in db[table]:
        raise ToolError(f"{table}: there is no {key!r}")
    return db[table][key]


def _total(db: Db, variants: list[str]) -> float:
    prices: list[float] = [_of(db, "variants", each)["price"] for each in variants]
    return round(sum(prices), 2)


def _settle(db: Db, order: Record, payment_id: str, charge: float) -> None:
    """Book what an order's customer pays, or gets back where `charge` is below zero."""
    payment = _of(db, "payments", payment_id)
    if charge == 0:
        return
    if payment["kind"] == "gift_card":
        payment["balance"] = round(payment["balance"] - charge, 2)
    order_id = order["order_id"]
    earlier = sum(each["order"] == order_id for each in db["settlements"].values())
    key = f"{order_id}-S{earlier + 1}"
    kind = "charge" if charge > 0 else "refund"
    booked = {"settlement_id": key, "order": order_id, "payment": payment_id}
    db["settlements"][key] = {**booked, "kind": kind, "amount": abs(charge)}


def find_customer_by_name(db: Db, first_name: str, last_name: str, zip_code: str) -> Record:
    """The customer with a full name and a zip code."""
    wanted = (first_name.casefold(), last_name.casefold(), zip_code)
    for each in db["customers"].values():
        if (each["first_name"].casefold(), each["last_name"].casefold(), each["zip"]) == wanted:
            return each
    raise ToolError("no customer has this name and zip code")


def find_customer_by_email(db: Db, email: str) -> Record:
    """The customer with an email address."""
    for each in db["customers"].values():
        if each["email"] == email.casefold():
            return each
    raise ToolError("no customer has this email address")


def get_customer(db: Db, customer_id: str) -> Record:
    """A customer."""
    return _of(db, "customers", customer_id)


def get_order(db: Db, order_id: str) -> Record:
    """An order, and a line for each of its items."""
    order = _of(db, "orders", order_id)
    return {**order, "lines": [_line(db, each) for each in order["items"]]}


def _line(db: Db, variant_id: str) -> Record:
    variant = _of(db, "variants", variant_id)
    name = _of(db, "products", variant["product"])["name"]
    shown = {"variant_id": variant_id, "product_id": variant["product"], "product": name}
    return {**shown, "options": variant["options"], "price": variant["price"]}


def get_product(db: Db, product_id: str) -> Record:
    """A product, and its variants with price and stock."""
    product = _of(db, "products", product_id)
    return {**product, "variants": [_of(db, "variants", each) for each in product["variants"]]}


def find_products(db: Db, words: str) -> list[Record]:
    """The products whose name has some words."""
    wanted = words.casefold()
    return [each for each in db["products"].values() if wanted in each["name"].casefold()]


def get_payment(db: Db, payment_id: str) -> Record:
    """A means of payment."""
    return _of(db, "payments", payment_id)


def cancel_order(db: Db, order_id: str, reason: str) -> Record:
    """Cancel an order and refund it to the payment it was paid with."""
    order = _of(db, "orders", order_id)
    refund = _total(db, order["items"])
    order["status"] = "cancelled"
    order["cancel_reason"] = reason
    _settle(db, order, order["payment"], -refund)
    return {"order_id": order_id, "status": "cancelled", "refund": refund}


def change_order_address(db: Db, order_id: str, street: str, city: str, zip_code: str) -> Record:
    """Change where an order goes."""
    order = _of(db, "orders", order_id)
    order.update(street=street, city=city, zip=zip_code)
    return order


def change_customer_address(
    db: Db, customer_id: str, street: str, city: str, zip_code: str
) -> Record:
    """Change where a customer lives."""
    customer = _of(db, "customers", customer_id)
    customer.update(street=street, city=city, zip=zip_code)
    return customer


def return_items(db: Db, order_id: str, variant_ids: list[str], payment_id: str) -> Record:
    """Take items of an order back and refund them."""
    order = _of(db, "orders", order_id)
    if not variant_ids:
        raise ToolError("no item is given")
    strange = [each for each in variant_ids if each not in order["items"]]
    if strange:
        raise ToolError(f"{order_id} has no {strange[0]!r}")
    refund = _total(db, variant_ids)
    order["returned"] = sorted({*order["returned"], *variant_ids})
    _settle(db, order, payment_id, -refund)
    return {"order_id": order_id, "returned": order["returned"], "refund": refund}


def exchange_item(
    db: Db, order_id: str, old_variant_id: str, new_variant_id: str, payment_id: str
) -> Record:
    """Exchange an item of an order for another variant, and settle the difference."""
    order = _of(db, "orders", order_id)
    old, new = _of(db, "variants", old_variant_id), _of(db, "variants", new_variant_id)
    if old_variant_id not in order["items"]:
        raise ToolError(f"{order_id} has no {old_variant_id!r}")
    order["items"] = [new_variant_id if e == old_variant_id else e for e in order["items"]]
    old["stock"] += 1
    new["stock"] -= 1
    difference = round(new["price"] - old["price"], 2)
    _settle(db, order, payment_id, difference)
    return {"order_id": order_id, "items": order["items"], "difference": difference}


def calculate(db: Db, expression: str) -> float:
    """The value of an arithmetic expression, to two digits after the point."""
    try:
        return round(float(_value(ast.parse(expression, mode="eval").body)), 2)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError) as error:
        raise ToolError(f"expression: {error}") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("only numbers, + - * / and brackets")


def hand_over(db: Db, summary: str) -> str:
    """Give the conversation to a human."""
    return "A colleague takes over."


def only_pending_cancelled(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would cancel an order that is on its way or further."""
    order = db["orders"].get(arguments.get("order_id", ""))
    if name != "cancel_order" or order is None or order["status"] == "pending":
        return ""
    return f"the order is {order['status']}, and only pending orders may be cancelled"


def only_known_reasons(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would cancel for another reason than the two."""
    known = ("no longer needed", "ordered by mistake")
    if name != "cancel_order" or arguments.get("reason") in known:
        return ""
    return f"an order is cancelled only for one of {known}"


def only_pending_redirected(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would change the address of an order that is on its way or further."""
    order = db["orders"].get(arguments.get("order_id", ""))
    if name != "change_order_address" or order is None or order["status"] == "pending":
        return ""
    return f"the order is {order['status']}, and only pending orders may go elsewhere"


def only_in_window(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would take back what is not delivered, or was too long ago."""
    order = db["orders"].get(arguments.get("order_id", ""))
    if name not in ("return_items", "exchange_item") or order is None:
        return ""
    if order["status"] != "delivered":
        return f"the order is {order['status']}, not delivered"
    shop = db["shop"]["shop"]
    days = (date.fromisoformat(shop["today"]) - date.fromisoformat(order["delivered"])).days
    return f"it was delivered {days} days ago" if days > shop["return_days"] else ""


def only_once(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would take back an item a second time."""
    order = db["orders"].get(arguments.get("order_id", ""))
    given = arguments.get("variant_ids") or [arguments.get("old_variant_id")]
    if name not in ("return_items", "exchange_item") or order is None:
        return ""
    again = [each for each in given if each in order["returned"]]
    if len(set(given)) < len(given):
        return "an item is named twice"
    return f"{again[0]} is already returned" if again else ""


def only_same_product(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would exchange an item for another product."""
    if name != "exchange_item":
        return ""
    old = db["variants"].get(arguments.get("old_variant_id", ""))
    new = db["variants"].get(arguments.get("new_variant_id", ""))
    if old is None or new is None or old["product"] == new["product"]:
        return ""
    return "an item is exchanged only for another variant of the same product"


def only_in_stock(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would hand out what is not there."""
    new = db["variants"].get(arguments.get("new_variant_id", ""))
    sold_out = name == "exchange_item" and new is not None and new["stock"] < 1
    return "the new variant is not in stock" if sold_out else ""


def only_original_payment(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would settle elsewhere than the order's payment or a gift card of its own."""
    order = db["orders"].get(arguments.get("order_id", ""))
    payment = db["payments"].get(arguments.get("payment_id", ""))
    if order is None or payment is None or payment["payment_id"] == order["payment"]:
        return ""
    if payment["kind"] == "gift_card" and payment["customer"] == order["customer"]:
        return ""
    return "it goes to the original payment or to a gift card of the customer"


def only_covered(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would overdraw a gift card."""
    payment = db["payments"].get(arguments.get("payment_id", ""))
    old = db["variants"].get(arguments.get("old_variant_id", ""))
    new = db["variants"].get(arguments.get("new_variant_id", ""))
    if name != "exchange_item" or None in (payment, old, new):
        return ""
    assert payment and old and new
    short = payment["kind"] == "gift_card" and payment["balance"] < new["price"] - old["price"]
    return "the gift card does not cover the difference" if short else ""
