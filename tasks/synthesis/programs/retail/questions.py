"""What ends without a change: questions of the shop's customers, and what its rules forbid."""

from collections.abc import Iterator

from tutti.tasks.synthesis.domains import Action
from tutti.tasks.synthesis.programs.intents import Intent, is_plain, listed, money
from tutti.tasks.synthesis.programs.retail.spec import REASONS
from tutti.tasks.synthesis.programs.retail.templates import (
    OrderName,
    Record,
    Shop,
    Template,
    cancel_call,
    read_order,
    return_call,
    some_items,
)

DECIDING = {
    "late_return": "return_window",
    "wrong_exchange": "same_product",
    "wrong_refund": "original_payment",
}
"""The rule that forbids what a template asks for."""
INSISTS = {
    "late_return": "You know of no reason why it should not be possible.",
    "wrong_exchange": "Neither another version of it nor a return interests you.",
    "wrong_refund": "You accept no refund to anything else; then you would rather keep the goods.",
}


def total(shop: Shop, customer: Record) -> Iterator[Intent]:
    """What a return of some items would pay."""
    for order in filter(shop.in_window, shop.orders(customer, "delivered")):
        items = some_items(shop, order)
        named = shop.name(customer, order, items)
        amount = shop.total(items)
        if is_plain(amount):
            yield Intent(
                name="total",
                reason=shop.say("total", order=named.text, items=listed(shop.names(items))),
                actions=(read_order(order),),
                touches=frozenset((order["order_id"],)),
                slots={**named.slots, "items": "|".join(shop.names(items))},
                rules=("identify", "cancel_pending"),
                forbidden=(cancel_call(order, REASONS[0]),),
                communicate=(money(amount),),
                unknown=named.unknown,
                instructions=shop.ask("sum"),
            )


def spent(shop: Shop, customer: Record) -> Iterator[Intent]:
    """The sum of all delivered orders."""
    delivered = shop.orders(customer, "delivered")
    amount = shop.total([item for order in delivered for item in order["items"]])
    if len(delivered) > 1 and is_plain(amount):
        orders = [shop.records["orders"][each] for each in customer["orders"]]
        yield Intent(
            name="spent",
            reason=shop.say("spent"),
            actions=tuple(map(read_order, orders)),
            touches=frozenset(customer["orders"]),
            slots={},
            rules=("identify", "cancel_pending"),
            forbidden=tuple(cancel_call(order, REASONS[0]) for order in delivered),
            communicate=(money(amount),),
            unknown="You do not know the numbers of your orders.",
            instructions=shop.ask("sum"),
        )


def late_return(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return items too long after the delivery."""
    late = [o for o in shop.orders(customer, "delivered") if not shop.in_window(o)]
    for order in late:
        items = some_items(shop, order)
        named = shop.name(customer, order, items)
        reason = shop.say("late_return", order=named.text, items=listed(shop.names(items)))
        forbidden = return_call(order, items)
        yield from _sum_refused(shop, order, named, ("late_return", reason, forbidden))


def wrong_exchange(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Exchange an item for another product."""
    for order in filter(shop.in_window, shop.orders(customer, "delivered")):
        item = shop.rng.choice(order["items"])
        own = shop.names(order["items"])
        products = shop.records["products"].values()
        other = shop.rng.choice([each for each in products if each["name"] not in own])
        named, (product,) = shop.name(customer, order, [item]), shop.names([item])
        reason = shop.say("wrong_exchange", order=named.text, item=product, other=_a(other["name"]))
        ids = {"order_id": order["order_id"], "old_variant_id": item}
        ids |= {"new_variant_id": other["variants"][0], "payment_id": order["payment"]}
        forbidden = Action(name="exchange_item", arguments=ids)
        yield from _sum_refused(shop, order, named, ("wrong_exchange", reason, forbidden))


def wrong_refund(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return items with the refund on a payment that the order was not paid with."""
    for order in filter(shop.in_window, shop.orders(customer, "delivered")):
        others = [each for each in customer["payments"][1:] if each != order["payment"]]
        if not others:
            continue
        kinds = [shop.records["payments"][each]["kind"] for each in (others[0], order["payment"])]
        kind = f"other {kinds[0]}" if kinds[0] == kinds[1] else kinds[0]
        items = some_items(shop, order)
        named = shop.name(customer, order, items)
        names = listed(shop.names(items))
        reason = shop.say("wrong_refund", order=named.text, items=names, kind=kind)
        forbidden = return_call(order, items, others[0])
        yield from _sum_refused(shop, order, named, ("wrong_refund", reason, forbidden))


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _sum_refused(
    shop: Shop, order: Record, named: OrderName, told: tuple[str, str, Action]
) -> Iterator[Intent]:
    """An intent that is refused, after which the user asks for the order's price; `told`: its
    template, reason and forbidden call."""
    name, reason, forbidden = told
    price = shop.total(order["items"])
    if not is_plain(price):
        return
    yield Intent(
        name=name,
        reason=reason,
        actions=(read_order(order),),
        touches=frozenset((order["order_id"],)),
        slots=named.slots,
        rules=("identify", DECIDING[name], "refuse"),
        forbidden=(forbidden,),
        communicate=(money(price),),
        known=INSISTS[name],
        unknown=named.unknown,
        instructions=shop.ask("refused_sum"),
    )


def late_cancel(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Cancel an order that is on its way or delivered."""
    for order in shop.orders(customer, "shipped", "delivered"):
        if order["status"] == "delivered" and shop.in_window(order):
            continue  # a return would be the better answer
        named, payment = shop.name(customer, order), shop.records["payments"][order["payment"]]
        get = Action(name="get_payment", arguments={"payment_id": order["payment"]})
        yield Intent(
            name="late_cancel",
            reason=shop.say("late_cancel", order=named.text),
            actions=(read_order(order), get),
            touches=frozenset((order["order_id"],)),
            slots=named.slots,
            rules=("identify", "cancel_pending", "refuse"),
            forbidden=(cancel_call(order, REASONS[0]),),
            communicate=(payment["last_four"],),
            known=f"Your reason is: {REASONS[0]}. You do not want to return anything.",
            unknown=named.unknown,
            instructions=shop.ask("refused_card"),
        )


QUESTIONS: tuple[Template, ...] = (
    *(total, spent, late_return, wrong_exchange, wrong_refund, late_cancel),
)
