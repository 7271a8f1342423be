"""Draws the records of a shop: every field of every table, with keys that exist."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from tutti.tasks.synthesis.programs.people import Person, numbers, people
from tutti.tasks.synthesis.programs.program import Knobs

Tables = dict[str, dict[str, dict[str, Any]]]

PRODUCTS = {
    "kitchen": "copper kettle,enamel teapot,oak serving tray,cast-iron casserole,stone mortar",
    "living room": "wool throw,brass reading light,walnut shelf,linen curtain,jute rug,"
    "velvet footstool,mantel clock,wicker basket",
    "garden": "zinc planter,bamboo wind chime,teak bench,bird feeder,lantern set,"
    "folding pruning saw,watering can,slate sundial",
    "study": "leather writing pad,canvas satchel,ash bookend,glass inkwell,cork board,"
    "magazine rack,desk organiser,felt pinboard",
}
COLOURS = "moss green,ivory,slate grey,ochre,midnight blue,terracotta,sage,charcoal".split(",")
SIZES = ("small", "medium", "large")
VARIANTS = 3
RETURN_DAYS = (14, 21, 28, 30, 45)
STATES = ("pending",) * 7 + ("shipped",) * 3 + ("recent",) * 8 + ("late",) * 3
ORDERS = (2, 3, 3)
"""How many orders a customer has, before those that distract."""


class ShopMaker:
    """Fills the tables of one instance."""

    def __init__(self, rng: Random, knobs: Knobs) -> None:
        self.rng, self.knobs = rng, knobs
        self.ids = numbers(rng)
        self.today = date(2026, 1, 10) + timedelta(days=rng.randrange(300))
        self.return_days = rng.choice(RETURN_DAYS)
        names = ("shop", "customers", "products", "variants", "orders", "payments", "settlements")
        self.tables: Tables = {name: {} for name in names}

    def make(self) -> Tables:
        """All records."""
        shop = {"name": "shop", "today": self.today.isoformat(), "return_days": self.return_days}
        self.tables["shop"]["shop"] = shop
        for category, names in PRODUCTS.items():
            for name in names.split(","):
                self._product(name, category)
        namesakes = self.knobs["distractors"]
        for person in people(self.rng, self.knobs["customers"], namesakes):
            self._customer(person)
        return self.tables

    def _add(self, table: str, prefix: str, key: str, **fields: Any) -> str:
        number = f"{prefix}-{next(self.ids)}"
        self.tables[table][number] = {key: number, **fields}
        return number

    def _product(self, name: str, category: str) -> None:
        product = self._add(
            "products", "PR", "product_id", name=name, category=category, variants=[]
        )
        base = self.rng.uniform(12, 160)
        looks = [f"{colour}, {size}" for colour in COLOURS for size in SIZES]
        self.tables["products"][product]["variants"] = [
            self._add(
                "variants",
                "VA",
                "variant_id",
                product=product,
                options=options,
                price=round(base * self.rng.uniform(0.8, 1.3), 2),
                stock=0 if self.rng.random() < 0.15 else self.rng.randint(1, 40),
            )
            for options in self.rng.sample(looks, VARIANTS)
        ]

    def _customer(self, person: Person) -> None:
        customer = self._add(
            "customers",
            "CU",
            "customer_id",
            first_name=person.first,
            last_name=person.last,
            email=person.email,
            **vars(person.address),
            orders=[],
            payments=[],
        )
        record = self.tables["customers"][customer]
        record["payments"] = list(self._payments(customer))
        states = [self.rng.choice(STATES) for _ in range(self.rng.choice(ORDERS))]
        states += ["cancelled"] * self.knobs["distractors"]
        self.rng.shuffle(states)
        record["orders"] = [self._order(record, state) for state in states]

    def _payments(self, customer: str) -> Iterator[str]:
        """A gift card, and one or two others."""
        for kind in ("gift_card", "card", self.rng.choice(("card", "wallet", ""))):
            if kind:
                yield self._add(
                    "payments",
                    "PA",
                    "payment_id",
                    customer=customer,
                    kind=kind,
                    last_four=str(self.rng.randint(1000, 9999)),
                    balance=round(self.rng.uniform(5, 90), 2) if kind == "gift_card" else None,
                )

    def _order(self, customer: dict[str, Any], state: str) -> str:
        products = self.rng.sample(list(self.tables["products"].values()), self.rng.randint(1, 4))
        ago = self.return_days + self.rng.randint(3, 90)
        if state == "recent":
            ago = self.rng.randint(0, self.return_days - 1)
        delivered = self.today - timedelta(days=ago)
        reached = state in ("recent", "late")
        placed = (delivered if reached else self.today) - timedelta(days=self.rng.randint(2, 9))
        return self._add(
            "orders",
            "OR",
            "order_id",
            customer=customer["customer_id"],
            status="delivered" if reached else state,
            placed=placed.isoformat(),
            delivered=delivered.isoformat() if reached else None,
            **{name: customer[name] for name in ("street", "city", "zip")},
            items=[self.rng.choice(product["variants"]) for product in products],
            returned=[],
            payment=self.rng.choice(customer["payments"][1:]),
            cancel_reason="no longer needed" if state == "cancelled" else None,
        )
