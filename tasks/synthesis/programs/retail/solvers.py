"""Reference solvers of the shop's tasks: they read the slots, not the golden calls.

Each solver gets the customer's record and its intent's slots, and returns the agent's sentence.
"""

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.programs.base.desks import Record
from tutti.tasks.synthesis.programs.base.intents import money
from tutti.tasks.synthesis.programs.base.program import Reading, Slots, find, use


def find_order(customer: Record, slots: Slots, keyed: str = "") -> Reading:
    """Return the order in the slots, by its number or by a product in it."""
    product = slots.get(f"{keyed}product")

    def matches(order: Record) -> bool:
        return any(line["product"] == product for line in order["lines"])

    if product is None:
        return (yield from use("get_order", order_id=slots[f"{keyed}order"]))
    what = f"order of {customer['customer_id']} with a {product}"
    return (yield from find(what, "get_order", "order_id", customer["orders"], matches))


def lines_of(order: Record, names: str) -> list[Record]:
    """Return the lines of products, whose names are joined by ``|``. Raises LookupError."""
    found = [line for line in order["lines"] if line["product"] in names.split("|")]
    if len(found) < len(names.split("|")):
        raise LookupError(f"{order['order_id']} lacks one of {names}")
    return found


def price_of(lines: list[Record]) -> float:
    """Return the total price of lines."""
    prices: list[float] = [line["price"] for line in lines]
    return round(sum(prices), 2)


def cancel(customer: Record, slots: Slots, keyed: str = "") -> Oracle:
    """Read the order and cancel it."""
    order = yield from find_order(customer, slots, keyed)
    order_id = order["order_id"]
    done = yield from use("cancel_order", order_id=order_id, reason=slots["reason"])
    return f"Order {order_id} is cancelled; {money(done['refund'])} is refunded."


def cancel_two(customer: Record, slots: Slots) -> Oracle:
    """Cancel the second order first, as a person might."""
    second = yield from cancel(customer, slots, "second_")
    first = yield from cancel(customer, slots)
    return f"{first} {second}"


def return_some(customer: Record, slots: Slots) -> Oracle:
    """Return the items to the order's own payment."""
    order = yield from find_order(customer, slots)
    variants = [line["variant_id"] for line in lines_of(order, slots["items"])]
    arguments = {"variant_ids": variants[::-1], "payment_id": order["payment"]}
    done = yield from use("return_items", order_id=order["order_id"], **arguments)
    return f"The items are returned; {money(done['refund'])} is refunded."


def return_gift(customer: Record, slots: Slots) -> Oracle:
    """Look for the gift card among the payments, return all items, and read its balance."""
    order = yield from find_order(customer, slots)
    gift = ""
    for payment_id in customer["payments"]:
        payment = yield from use("get_payment", payment_id=payment_id)
        gift = payment_id if payment["kind"] == "gift_card" else gift
    variants = [line["variant_id"] for line in order["lines"]]
    arguments = {"variant_ids": variants, "payment_id": gift}
    yield from use("return_items", order_id=order["order_id"], **arguments)
    after = yield from use("get_payment", payment_id=gift)
    return f"All is returned; your gift card now holds {money(after['balance'])}."


def exchange(customer: Record, slots: Slots) -> Oracle:
    """Find the variant by its options among those of the item's product."""
    order = yield from find_order(customer, slots)
    (line,) = lines_of(order, slots["item"])
    product = yield from use("get_product", product_id=line["product_id"])
    wanted = [each for each in product["variants"] if each["options"] == slots["options"]]
    if not wanted:
        raise LookupError(f"{line['product']} is not made in {slots['options']}")
    done = yield from use(
        "exchange_item",
        order_id=order["order_id"],
        old_variant_id=line["variant_id"],
        new_variant_id=wanted[0]["variant_id"],
        payment_id=order["payment"],
    )
    return f"The item is exchanged; the difference is {money(abs(done['difference']))}."


def address(customer: Record, slots: Slots) -> Oracle:
    """Change the order's address."""
    order = yield from find_order(customer, slots)
    yield from use("change_order_address", order_id=order["order_id"], **_place(slots))
    return "The order goes to the new address."


def move(customer: Record, slots: Slots) -> Oracle:
    """Change the address of pending orders, then of the profile."""
    for order_id in customer["orders"]:
        order = yield from use("get_order", order_id=order_id)
        if order["status"] == "pending":
            yield from use("change_order_address", order_id=order_id, **_place(slots))
    yield from use("change_customer_address", customer_id=customer["customer_id"], **_place(slots))
    return "Your profile and your pending orders have the new address."


def _place(slots: Slots) -> dict[str, str]:
    return {name: slots[name] for name in ("street", "city", "zip_code")}


def total(customer: Record, slots: Slots) -> Oracle:
    """Add up the items' prices."""
    order = yield from find_order(customer, slots)
    return f"You would get back {money(price_of(lines_of(order, slots['items'])))}."


def spent(customer: Record, slots: Slots) -> Oracle:
    """Read all orders and add up the delivered ones."""
    lines: list[Record] = []
    for order_id in customer["orders"]:
        order = yield from use("get_order", order_id=order_id)
        lines += order["lines"] if order["status"] == "delivered" else []
    return f"Your delivered orders cost {money(price_of(lines))} in all."


def refused_sum(customer: Record, slots: Slots) -> Oracle:
    """Read the order and state its price."""
    order = yield from find_order(customer, slots)
    return f"That is not possible. The order cost {money(price_of(order['lines']))}."


def refused_card(customer: Record, slots: Slots) -> Oracle:
    """Read the order and its payment."""
    order = yield from find_order(customer, slots)
    payment = yield from use("get_payment", payment_id=order["payment"])
    status = f"it is {order['status']}"
    return f"That is not possible: {status}. Its payment ends in {payment['last_four']}."
