"""What customers of the shop want: each template yields intents about an order, or a customer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Action
from tutti.tasks.synthesis.domains.domain import Records
from tutti.tasks.synthesis.programs.intents import Intent, is_plain, listed, money
from tutti.tasks.synthesis.programs.people import draw_address
from tutti.tasks.synthesis.programs.retail.phrases import ASKS, NO_NUMBER, REASONS
from tutti.tasks.synthesis.programs.retail.spec import REASONS as CANCEL_REASONS

Record = Mapping[str, Any]


@dataclass(frozen=True)
class OrderName:
    """How the user names an order."""

    text: str
    slots: Mapping[str, str]
    unknown: str = ""


@dataclass(frozen=True)
class Shop:
    """An instance with the questions that templates have about it."""

    records: Records
    rng: Random

    def total(self, variants: Sequence[str]) -> float:
        """The price of variants."""
        prices: list[float] = [self.records["variants"][each]["price"] for each in variants]
        return round(sum(prices), 2)

    def names(self, variants: Sequence[str]) -> list[str]:
        """The products' names of variants, in order."""
        return [
            str(self.records["products"][self.records["variants"][each]["product"]]["name"])
            for each in variants
        ]

    def orders(self, customer: Record, *statuses: str) -> list[Record]:
        """A customer's orders in some statuses."""
        all_of = [self.records["orders"][each] for each in customer["orders"]]
        return [each for each in all_of if each["status"] in statuses]

    def in_window(self, order: Record) -> bool:
        """Whether items of a delivered order may be returned today."""
        shop = self.records["shop"]["shop"]
        days = _days(shop["today"]) - _days(order["delivered"])
        return bool(days <= shop["return_days"])

    def name(
        self, customer: Record, order: Record, said: Sequence[str] = (), keyed: str = ""
    ) -> OrderName:
        """An order by its number, or by a product that no other order of the customer has; not by
        one of the variants that the intent names anyway (`said`)."""
        order_id = str(order["order_id"])
        others = [self.records["orders"][o] for o in customer["orders"] if o != order_id]
        elsewhere = {name for other in others for name in self.names(other["items"])}
        elsewhere |= set(self.names(said))
        telling = [name for name in self.names(order["items"]) if name not in elsewhere]
        if not telling or self.rng.random() < 0.5:
            return OrderName(f"order {order_id}", {f"{keyed}order": order_id})
        product = self.rng.choice(telling)
        unknown = self.rng.choice(NO_NUMBER)
        return OrderName(f"the order with the {product}", {f"{keyed}product": product}, unknown)

    def say(self, template: str, /, **values: str) -> str:
        """A way to say an intent."""
        said = self.rng.choice(REASONS[template]).format(**values)
        return said[0].upper() + said[1:]

    def ask(self, name: str) -> str:
        """A way to ask for a fact."""
        return self.rng.choice(ASKS[name])


def _days(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def read_order(order: Record) -> Action:
    return Action(name="get_order", arguments={"order_id": order["order_id"]})


def cancel_call(order: Record, reason: str) -> Action:
    return Action(name="cancel_order", arguments={"order_id": order["order_id"], "reason": reason})


def return_call(order: Record, variants: Sequence[str], payment: str = "") -> Action:
    arguments = {"order_id": order["order_id"], "variant_ids": list(variants)}
    return Action(
        name="return_items", arguments={**arguments, "payment_id": payment or order["payment"]}
    )


def some_items(shop: Shop, order: Record) -> list[str]:
    """Some items of an order, in its order; rarely all."""
    count = shop.rng.randint(1, max(1, min(3, len(order["items"]) - 1)))
    chosen = shop.rng.sample(order["items"], count)
    return [each for each in order["items"] if each in chosen]


def cancel(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Cancel a pending order, and say the refund."""
    for order in shop.orders(customer, "pending"):
        named, reason = shop.name(customer, order), shop.rng.choice(CANCEL_REASONS)
        refund = shop.total(order["items"])
        if is_plain(refund):
            yield Intent(
                name="cancel",
                reason=shop.say("cancel", order=named.text),
                actions=(read_order(order), cancel_call(order, reason)),
                touches=frozenset((order["order_id"],)),
                slots={**named.slots, "reason": reason},
                rules=("identify", "cancel_pending", "cancel_reason", "return_window"),
                forbidden=(
                    return_call(order, order["items"]),
                    cancel_call(order, "found it cheaper"),
                ),
                communicate=(money(refund),),
                known=f"Your reason for cancelling is: {reason}.",
                unknown=named.unknown,
                instructions=shop.ask("refund"),
            )


def cancel_two(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Cancel two pending orders."""
    pending = shop.orders(customer, "pending")
    for first, second in pairwise(pending):
        named, other = shop.name(customer, first), shop.name(customer, second, keyed="second_")
        reason = shop.rng.choice(CANCEL_REASONS)
        refunds = [shop.total(order["items"]) for order in (first, second)]
        if all(map(is_plain, refunds)):
            yield Intent(
                name="cancel_two",
                reason=shop.say("cancel_two", order=named.text, second=other.text),
                actions=(
                    *(read_order(first), cancel_call(first, reason)),
                    *(read_order(second), cancel_call(second, reason)),
                ),
                touches=frozenset((first["order_id"], second["order_id"])),
                slots={**named.slots, **other.slots, "reason": reason},
                rules=("identify", "cancel_pending", "return_window"),
                forbidden=(
                    return_call(first, first["items"]),
                    return_call(second, second["items"]),
                ),
                communicate=tuple(map(money, refunds)),
                known=f"Your reason for cancelling is: {reason}.",
                unknown=named.unknown or other.unknown,
                instructions=f"{shop.ask('refund')} You want the amount of each order.",
            )


def return_some(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return items of a delivered order in time, to the original payment."""
    for order in filter(shop.in_window, shop.orders(customer, "delivered")):
        items = some_items(shop, order)
        named = shop.name(customer, order, items)
        refund = shop.total(items)
        if is_plain(refund):
            yield Intent(
                name="return",
                reason=shop.say("return", order=named.text, items=listed(shop.names(items))),
                actions=(read_order(order), return_call(order, items)),
                touches=frozenset((order["order_id"],)),
                slots={**named.slots, "items": "|".join(shop.names(items))},
                rules=("identify", "return_window", "return_once", "original_payment"),
                forbidden=(return_call(order, [items[0], items[0]]),),
                communicate=(money(refund),),
                known="The refund should go to whatever the order was paid with.",
                unknown=named.unknown,
                instructions=shop.ask("refund"),
            )


def return_gift(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Return a whole order to the gift card, and say its balance then."""
    gift = customer["payments"][0]
    for order in filter(shop.in_window, shop.orders(customer, "delivered")):
        named, items = shop.name(customer, order), order["items"]
        after = round(shop.records["payments"][gift]["balance"] + shop.total(items), 2)
        if is_plain(after):
            get = Action(name="get_payment", arguments={"payment_id": gift})
            yield Intent(
                name="return_gift",
                reason=shop.say("return_gift", order=named.text),
                actions=(read_order(order), get, return_call(order, items, gift)),
                touches=frozenset((order["order_id"], gift)),
                slots=named.slots,
                rules=("identify", "return_window", "original_payment", "cancel_pending"),
                forbidden=(cancel_call(order, CANCEL_REASONS[0]),),
                communicate=(money(after),),
                unknown=named.unknown,
                instructions=shop.ask("balance"),
            )


def exchange(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Exchange an item for another variant of it."""
    for order in filter(shop.in_window, shop.orders(customer, "delivered")):
        for item in order["items"][:2]:
            variants = shop.records["variants"]
            product = shop.records["products"][variants[item]["product"]]
            others = [variants[each] for each in product["variants"] if each != item]
            new = shop.rng.choice(others)
            gap = round(new["price"] - variants[item]["price"], 2)
            if new["stock"] and is_plain(abs(gap)):
                yield _exchange(shop, customer, order, item, new, gap)


def _exchange(
    shop: Shop, customer: Record, order: Record, item: str, new: Record, gap: float
) -> Intent:
    named = shop.name(customer, order, [item])
    ids = {"order_id": order["order_id"], "old_variant_id": item}
    ids |= {"new_variant_id": new["variant_id"], "payment_id": order["payment"]}
    strange = next(
        key
        for key, each in shop.records["variants"].items()
        if each["product"] != new["product"] and each["stock"]
    )
    get = Action(name="get_product", arguments={"product_id": new["product"]})
    (product,) = shop.names([item])
    return Intent(
        name="exchange",
        reason=shop.say("exchange", order=named.text, item=product, options=new["options"]),
        actions=(read_order(order), get, Action(name="exchange_item", arguments=ids)),
        touches=frozenset((order["order_id"],)),
        slots={**named.slots, "item": product, "options": new["options"]},
        rules=("identify", "return_window", "same_product", "in_stock", "original_payment"),
        forbidden=(Action(name="exchange_item", arguments={**ids, "new_variant_id": strange}),),
        communicate=(money(abs(gap)),),
        known="Any difference is settled with whatever the order was paid with.",
        unknown=named.unknown,
        instructions=shop.ask("difference"),
    )


def address(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Send a pending order elsewhere."""
    for order in shop.orders(customer, "pending"):
        named, to = shop.name(customer, order), draw_address(shop.rng)
        slots = {"street": to.street, "city": to.city, "zip_code": to.zip}
        arguments = {"order_id": order["order_id"], **slots}
        yield Intent(
            name="address",
            reason=shop.say("address", order=named.text),
            actions=(read_order(order), Action(name="change_order_address", arguments=arguments)),
            touches=frozenset((order["order_id"],)),
            slots={**named.slots, **slots},
            rules=("identify", "redirect_pending", "cancel_reason"),
            forbidden=(cancel_call(order, "wrong address"),),
            known=f"The address for this order is {to.text}.",
            unknown=named.unknown,
            instructions=shop.ask("nothing"),
        )


def move(shop: Shop, customer: Record) -> Iterator[Intent]:
    """Change the address of the profile and of all pending orders."""
    pending = shop.orders(customer, "pending")
    elsewhere = shop.orders(customer, "shipped", "delivered", "cancelled")
    if not pending or not elsewhere:
        return
    to = draw_address(shop.rng)
    slots = {"street": to.street, "city": to.city, "zip_code": to.zip}
    profile = {"customer_id": customer["customer_id"], **slots}
    moved = [
        (
            read_order(order),
            Action(name="change_order_address", arguments={"order_id": order["order_id"], **slots}),
        )
        for order in pending
    ]
    fixed = {"order_id": elsewhere[0]["order_id"], **slots}
    yield Intent(
        name="move",
        reason=shop.say("move"),
        actions=(
            Action(name="change_customer_address", arguments=profile),
            *(action for pair in moved for action in pair),
        ),
        touches=frozenset((customer["customer_id"], *customer["orders"])),
        slots=slots,
        rules=("identify", "redirect_pending"),
        forbidden=(Action(name="change_order_address", arguments=fixed),),
        known=f"The address you have moved to is {to.text}.",
        unknown="You do not know which of your orders are pending.",
        instructions=shop.ask("nothing"),
    )


Template = Callable[[Shop, Record], Iterator[Intent]]
CHANGES: tuple[Template, ...] = (
    *(cancel, cancel_two, return_some, return_gift, exchange, address, move),
)
