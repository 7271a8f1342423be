"""The intents of the shop's customers: each template yields those of a customer, without their
words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any

from tutti.tasks.synthesis.domains import Action
from tutti.tasks.synthesis.programs.base.desks import Desk, Record
from tutti.tasks.synthesis.programs.base.intents import Intent, is_plain, listed
from tutti.tasks.synthesis.programs.base.people import draw_address
from tutti.tasks.synthesis.programs.base.program import call, call_on

REASONS = ("no longer needed", "ordered by mistake")
"""The only ones for which an order is cancelled."""
FIXED = ("shipped", "delivered", "cancelled")
"""The statuses of an order that cannot be changed."""


class Shop(Desk):
    """A shop, as its templates read it."""

    def total(self, variants: Sequence[str]) -> float:
        """Return the total price of variants."""
        prices: list[float] = [self.records["variants"][each]["price"] for each in variants]
        return round(sum(prices), 2)

    def names(self, variants: Sequence[str]) -> list[str]:
        """Return the products' names of variants, in order."""
        return [
            str(self.records["products"][self.records["variants"][each]["product"]]["name"])
            for each in variants
        ]

    def orders(self, customer: Record, *statuses: str) -> list[Record]:
        """Return a customer's orders with one of some statuses."""
        return [each for each in self.of(customer, "orders") if each["status"] in statuses]

    def delivered(self, customer: Record, in_window: bool = True) -> list[Record]:
        """Return a customer's delivered orders whose items may be returned today, or no longer."""
        orders = self.orders(customer, "delivered")
        return [each for each in orders if self.in_window(each) == in_window]

    def in_window(self, order: Record) -> bool:
        """Whether items of a delivered order may be returned today."""
        shop = self.records["shop"]["shop"]
        passed = date.fromisoformat(shop["today"]) - date.fromisoformat(order["delivered"])
        return bool(passed.days <= shop["return_days"])

    def about(
        self, customer: Record, order: Record, said: Sequence[str] = (), keyed: str = ""
    ) -> Intent:
        """Return an intent that reads an order. The user names the order by its number, or by a
        product that no other order of the customer has and that is not among the variants that the
        intent names anyway (`said`)."""
        order_id, items = str(order["order_id"]), self.names(said)
        others = [self.records["orders"][o] for o in customer["orders"] if o != order_id]
        elsewhere = {name for other in others for name in self.names(other["items"])}
        telling = [n for n in self.names(order["items"]) if n not in elsewhere | set(items)]
        slots, text, unknown = {f"{keyed}order": order_id}, f"order {order_id}", ""
        if telling and self.rng.random() >= 0.5:
            product, unknown = self.rng.choice(telling), self.ask("no_number")
            slots, text = {f"{keyed}product": product}, f"the order with the {product}"
        return Intent(
            (call_on("get_order", order),),
            touches=(order_id,),
            forbidden=(),
            slots=slots,
            says={f"{keyed}order": text, "items": listed(items)},
            unknown=unknown,
        )

    def refused(self, named: Intent, order: Record, call: Action, reason: str) -> Intent:
        """Return an intent that is refused, after which the user asks for the order's price."""
        price = self.total(order["items"])
        return replace(named, forbidden=(call,), facts=(price,), reason=reason)

    def about_items(self, customer: Record, order: Record) -> tuple[list[str], Intent]:
        """Return some items of an order, in its order, rarely all; and an intent that reads it."""
        count = self.rng.randint(1, max(1, min(3, len(order["items"]) - 1)))
        chosen = self.rng.sample(order["items"], count)
        items = [each for each in order["items"] if each in chosen]
        return items, self.about(customer, order, items)


def going_on(intent: Intent, *calls: Action, **changes: Any) -> Intent:
    """Return a copy of an intent with further golden calls, and with other fields."""
    return replace(intent, actions=(*intent.actions, *calls), **changes)


def cancel_call(order: Record, reason: str = REASONS[0]) -> Action:
    """Return a call that cancels an order."""
    return call_on("cancel_order", order, reason=reason)


def return_call(order: Record, variants: Sequence[str], payment: str = "") -> Action:
    """Return a call that returns items of an order, by default to its own payment."""
    payment = payment or order["payment"]
    return call_on("return_items", order, variant_ids=list(variants), payment_id=payment)


def exchange_call(order: Record, old: str, new: str) -> Action:
    """Return a call that exchanges an item of an order for another variant."""
    ids = {"old_variant_id": old, "new_variant_id": new, "payment_id": order["payment"]}
    return call_on("exchange_item", order, **ids)


def cancel(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Cancel a pending order, and state the refund."""
    for order in shop.orders(customer, "pending"):
        named, reason = shop.about(customer, order), shop.rng.choice(REASONS)
        yield going_on(
            named,
            cancel_call(order, reason),
            forbidden=(return_call(order, order["items"]), cancel_call(order, "found it cheaper")),
            facts=(shop.total(order["items"]),),
            slots={**named.slots, "reason": reason},
        )


def cancel_two(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Cancel two pending orders."""
    for both in pairwise(shop.orders(customer, "pending")):
        named = shop.about(customer, both[0])
        second = shop.about(customer, both[1], keyed="second_")
        reason = shop.rng.choice(REASONS)
        calls = [(call_on("get_order", order), cancel_call(order, reason)) for order in both]
        yield Intent(
            (*calls[0], *calls[1]),
            touches=[order["order_id"] for order in both],
            slots={**named.slots, **second.slots, "reason": reason},
            forbidden=[return_call(order, order["items"]) for order in both],
            facts=[shop.total(order["items"]) for order in both],
            says={**second.says, **named.says},
            unknown=named.unknown or second.unknown,
        )


def return_some(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return items of a delivered order in time, to the original payment."""
    for order in shop.delivered(customer):
        items, named = shop.about_items(customer, order)
        yield going_on(
            named,
            return_call(order, items),
            forbidden=(return_call(order, [items[0], items[0]]),),
            facts=(shop.total(items),),
            slots={**named.slots, "items": "|".join(shop.names(items))},
        )


def return_gift(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return a whole order to the gift card, and state its new balance."""
    gift = shop.of(customer, "payments")[0]
    for order in shop.delivered(customer):
        named, items, key = shop.about(customer, order), order["items"], gift["payment_id"]
        yield going_on(
            named,
            call("get_payment", payment_id=key),
            return_call(order, items, key),
            touches=(order["order_id"], key),
            forbidden=(cancel_call(order),),
            facts=(round(gift["balance"] + shop.total(items), 2),),
        )


def exchange(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Exchange an item for another variant of it."""
    variants = shop.records["variants"]
    for order, item in ((o, item) for o in shop.delivered(customer) for item in o["items"][:2]):
        product = shop.records["products"][variants[item]["product"]]
        new = variants[shop.rng.choice([each for each in product["variants"] if each != item])]
        gap = abs(round(new["price"] - variants[item]["price"], 2))
        if not new["stock"] or not is_plain(gap):
            continue
        others = (k for k, v in variants.items() if v["product"] != new["product"] and v["stock"])
        named = shop.about(customer, order, [item])
        yield going_on(
            named,
            call("get_product", product_id=new["product"]),
            exchange_call(order, item, new["variant_id"]),
            forbidden=(exchange_call(order, item, next(others)),),
            facts=(gap,),
            slots={**named.slots, "item": product["name"], "options": new["options"]},
        )


def new_place(shop: Shop) -> dict[str, str]:
    """Return a random address, as arguments and slots."""
    to = draw_address(shop.rng)
    return {"street": to["street"], "city": to["city"], "zip_code": to["zip"]}


def address(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Change the address of a pending order."""
    for order in shop.orders(customer, "pending"):
        named, place = shop.about(customer, order), new_place(shop)
        yield going_on(
            named,
            call_on("change_order_address", order, **place),
            forbidden=(cancel_call(order, "wrong address"),),
            slots={**named.slots, **place},
        )


def move(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Change the address of the profile and of all pending orders."""
    pending, fixed = shop.orders(customer, "pending"), shop.orders(customer, *FIXED)
    if not pending or not fixed:
        return
    place, actions = new_place(shop), []
    for order in pending:
        redirect = call_on("change_order_address", order, **place)
        actions += [call_on("get_order", order), redirect]
    yield Intent(
        (call_on("change_customer_address", customer, **place), *actions),
        touches=(customer["customer_id"], *customer["orders"]),
        slots=place,
        forbidden=(call_on("change_order_address", fixed[0], **place),),
    )


def total(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Ask how much a return of some items would refund."""
    for order in shop.delivered(customer):
        items, named = shop.about_items(customer, order)
        slots = {**named.slots, "items": "|".join(shop.names(items))}
        facts = (shop.total(items),)
        yield going_on(named, forbidden=(cancel_call(order),), facts=facts, slots=slots)


def spent(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Ask for the sum of all delivered orders."""
    delivered = shop.orders(customer, "delivered")
    if len(delivered) > 1:
        yield Intent(
            [call_on("get_order", each) for each in shop.of(customer, "orders")],
            touches=customer["orders"],
            forbidden=[cancel_call(each) for each in delivered],
            facts=(shop.total([item for order in delivered for item in order["items"]]),),
        )


def late_return(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return items after the return period."""
    for order in shop.delivered(customer, in_window=False):
        items, named = shop.about_items(customer, order)
        reason = shop.say("late_return", **named.says)
        yield shop.refused(named, order, return_call(order, items), reason)


def wrong_exchange(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Exchange an item for another product."""
    for order in shop.delivered(customer):
        item, own = shop.rng.choice(order["items"]), shop.names(order["items"])
        products = shop.records["products"].values()
        other = shop.rng.choice([each for each in products if each["name"] not in own])
        named = shop.about(customer, order, [item])
        article = "an" if other["name"][0] in "aeiou" else "a"
        wanted = f"{article} {other['name']}"
        reason = shop.say("wrong_exchange", **named.says, other=wanted)
        yield shop.refused(named, order, exchange_call(order, item, other["variants"][0]), reason)


def wrong_refund(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return items with the refund to a payment that the order was not paid with."""
    for order in shop.delivered(customer):
        others = [each for each in customer["payments"][1:] if each != order["payment"]]
        if not others:
            continue
        kinds = [shop.records["payments"][each]["kind"] for each in (others[0], order["payment"])]
        kind = f"other {kinds[0]}" if kinds[0] == kinds[1] else kinds[0]
        items, named = shop.about_items(customer, order)
        reason = shop.say("wrong_refund", **named.says, kind=kind)
        yield shop.refused(named, order, return_call(order, items, others[0]), reason)


def late_cancel(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Cancel an order that is on its way or delivered."""
    for order in shop.orders(customer, "shipped", "delivered"):
        if order["status"] == "delivered" and shop.in_window(order):
            continue  # a return would be the better answer
        named, payment = shop.about(customer, order), shop.records["payments"][order["payment"]]
        get = call("get_payment", payment_id=order["payment"])
        facts = (payment["last_four"],)
        yield going_on(named, get, forbidden=(cancel_call(order),), facts=facts)
