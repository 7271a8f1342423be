"""Drawing the records of a shop: every field of every table, with keys that exist."""

from collections.abc import Iterator
from typing import Any

from tutti.tasks.synthesis.programs.base.desks import RecordMaker
from tutti.tasks.synthesis.programs.base.people import Person

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
PERSON = ("first_name", "last_name", "email", "street", "city", "zip")
ORDERS = (2, 3, 3)
"""How many orders a customer has, before those that distract."""


class ShopMaker(RecordMaker):
    """Fills the tables of one instance."""

    def begin(self) -> None:
        """Add the shop's terms and its products."""
        self.return_days = self.rng.choice(RETURN_DAYS)
        self.add("shop", "shop", today=self.today.isoformat(), return_days=self.return_days)
        for category, names in PRODUCTS.items():
            for name in names.split(","):
                self._add_product(name, category)

    def _add_product(self, name: str, category: str) -> None:
        product = self.add("products", name=name, category=category, variants=[])
        base = self.rng.uniform(12, 160)
        looks = [f"{colour}, {size}" for colour in COLOURS for size in SIZES]
        self.tables["products"][product]["variants"] = [
            self.add(
                "variants",
                product=product,
                options=options,
                price=round(base * self.rng.uniform(0.8, 1.3), 2),
                stock=0 if self.rng.random() < 0.15 else self.rng.randint(1, 40),
            )
            for options in self.rng.sample(looks, VARIANTS)
        ]

    def add_person(self, person: Person) -> None:
        """Add a customer with payments and orders."""
        fields = {name: person[name] for name in PERSON}
        customer = self.add("customers", **fields, orders=[], payments=[])
        record = self.tables["customers"][customer]
        record["payments"] = list(self._payments(customer))
        states = [self.rng.choice(STATES) for _ in range(self.rng.choice(ORDERS))]
        states += ["cancelled"] * self.knobs["distractors"]
        self.rng.shuffle(states)
        record["orders"] = [self._order(record, state) for state in states]

    def _payments(self, customer: str) -> Iterator[str]:
        for kind in ("gift_card", "card", self.rng.choice(("card", "wallet", ""))):
            if kind:
                yield self.add(
                    "payments",
                    customer=customer,
                    kind=kind,
                    last_four=str(self.rng.randint(1000, 9999)),
                    balance=self.money(5, 90) if kind == "gift_card" else None,
                )

    def _order(self, customer: dict[str, Any], state: str) -> str:
        products = self.rng.sample(list(self.tables["products"].values()), self.rng.randint(1, 4))
        ago = self.return_days + self.rng.randint(3, 90)
        if state == "recent":
            ago = self.rng.randint(0, self.return_days - 1)
        reached = state in ("recent", "late")
        return self.add(
            "orders",
            customer=customer["customer_id"],
            status="delivered" if reached else state,
            placed=self.ago((ago if reached else 0) + self.rng.randint(2, 9)),
            delivered=self.ago(ago) if reached else None,
            **{name: customer[name] for name in ("street", "city", "zip")},
            items=[self.rng.choice(product["variants"]) for product in products],
            returned=[],
            payment=self.rng.choice(customer["payments"][1:]),
            cancel_reason="no longer needed" if state == "cancelled" else None,
        )
