"""The records of the figures office."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import TableSpec
from tutti.tasks.synthesis.programs.base.people import NameMaker
from tutti.tasks.synthesis.programs.base.program import Knobs, Tables

WARES = "flour oil rope paint wire soap tea salt glue wax".split()
VARIANTS = ("extra", "second choice", "old stock", "sample", "export", "bulk")
"""Suffixes of a product's name, one for each distractor."""


class OfficeMaker:
    """Fills the tables of one instance."""

    def __init__(self, rng: Random, knobs: Knobs, tables: Sequence[TableSpec]) -> None:
        self.rng, self.knobs, self.made = rng, knobs, NameMaker(rng)
        self.fields = {table.name: [field.name for field in table.fields] for table in tables}
        self.records: Tables = {name: {} for name in self.fields}

    def _add(self, table: str, key: str, *values: Any) -> str:
        fields = zip(self.fields[table], (key, *values), strict=True)
        self.records[table][key] = dict(fields)
        return key

    def make(self) -> Tables:
        """Return all records."""
        rng, made = self.rng, self.made
        for number in range(12):
            self._add("suppliers", f"SU{number + 11}", f"{made.name()} & Sons")
        self._add_products()
        for number, percent in enumerate(rng.choices(range(2, 31), k=30)):
            name = f"{made.name()} {made.name()}"
            self._add_readings(self._add("customers", f"CU{number + 101}", name, percent))
        self._add_recipes()
        self._add_trips()
        for number in range(40):
            key = f"RE{rng.randrange(10, 100)}{number + 10}"
            status = "closed" if number % 4 == 0 else "open"
            self._add("reports", key, f"{made.name()} sheet", status, None)
        return self.records

    def _add_products(self) -> None:
        """Add the products; every sixth has variants of its name."""
        rng = self.rng
        names = [f"{self.made.name()} {rng.choice(WARES)}" for _ in range(60)]
        kinds = VARIANTS[: self.knobs["distractors"]]
        names += [f"{name} {kind}" for name in names[::6] for kind in kinds]
        for number, name in enumerate(names):
            supplier = rng.choice(list(self.records["suppliers"]))
            price, unit = rng.randrange(101, 9990) / 100, rng.choice(("bag", "box", "can"))
            weight = rng.randint(1, 60), rng.choice(("kg", "lb", "oz"))
            values = (name, supplier, price, unit, rng.randint(3, 400), *weight)
            self._add("products", f"PR{number + 301}", *values)

    def _add_readings(self, customer: str) -> None:
        rng = self.rng
        on, kwh = date(2031, 1, 1) + timedelta(days=rng.randrange(60)), rng.randrange(1000, 40_000)
        for _ in range(3 + self.knobs["distractors"] // 2):
            key = f"RD{len(self.records['readings']) + 1001}"
            self._add("readings", key, customer, on.isoformat(), kwh)
            on, kwh = on + timedelta(days=rng.randint(13, 70)), kwh + rng.randrange(100, 4000)

    def _add_recipes(self) -> None:
        rng, products = self.rng, list(self.records["products"])
        for number in range(24):
            name, key = f"{self.made.name()} stew", f"RC{number + 51}"
            self._add("recipes", key, name, rng.randint(3, 12))
            for product in rng.sample(products, self.knobs["operands"]):
                line = f"LI{len(self.records['recipe_lines']) + 2001}"
                self._add("recipe_lines", line, key, product, rng.randint(2, 9))

    def _add_trips(self) -> None:
        rng = self.rng
        lines = [f"{self.made.name()} Express" for _ in range(18)]
        for number in range(54):
            departs = datetime(2031, 1 + number % 12, rng.randint(1, 28), rng.randrange(24))
            arrives = departs + timedelta(minutes=3 * rng.randint(20, 200))
            times = [each.isoformat(timespec="minutes") for each in (departs, arrives)]
            values = (lines[number // 3], *times, rng.randint(30, 900))
            self._add("trips", f"TR{number + 501}", *values)
