"""Drawing the records of a bank: every field of every table, with keys that exist."""

from collections.abc import Iterator
from random import Random

from tutti.tasks.synthesis.programs.base.desks import RecordMaker
from tutti.tasks.synthesis.programs.base.people import FIRST, LAST, Person

MERCHANTS = (
    "Harbour Bakery,Northside Grocers,Blue Heron Books,Kestrel Cycles,Juniper Pharmacy,"
    "Copperfield Hardware,Lantern Cinema,Willow Garden Centre,Ferry Line,Summit Outdoor,"
    "Orchard Cafe,Pinewood Petrol,Meridian Airways,Tidewater Hotel,Stonebridge Dental,"
    "Cobalt Electronics,Marigold Florist,Saddlers Shoes,Quayside Sushi,Beacon Streaming,"
    "Alder Furniture,Rookery Toys,Vesper Opticians,Thistle Tailors"
).split(",")
PURPOSES = ("car", "kitchen", "studies", "roof", "boat", "furniture", "garden")
LIMITS = (500, 750, 1_000, 1_500, 2_000)
DISPUTE_DAYS = (30, 45, 60, 90)
PERSON = ("first_name", "last_name", "birth_date", "phone", "city")
PAYMENTS = 3
"""Card payments on a current account, before those that distract."""


class BankMaker(RecordMaker):
    """Fills the tables of one instance."""

    def begin(self) -> None:
        """Add the bank's terms."""
        limit, self.dispute_days = self.rng.choice(LIMITS), self.rng.choice(DISPUTE_DAYS)
        terms = {"daily_limit": limit, "dispute_days": self.dispute_days}
        self.add("bank", "bank", today=self.today.isoformat(), **terms)

    def add_person(self, person: Person) -> None:
        """Add a client with accounts, cards, loans and beneficiaries."""
        client = self.add(
            "clients",
            **{name: person[name] for name in PERSON},
            accounts=[],
            cards=[],
            loans=[],
            beneficiaries=[],
        )
        record = self.tables["clients"][client]
        record["accounts"] = list(self._accounts(client))
        record["cards"] = list(self._cards(client, record["accounts"][0]))
        record["loans"] = list(self._loans(client))
        record["beneficiaries"] = list(self._beneficiaries(client))

    def _accounts(self, client: str) -> Iterator[str]:
        """Yield a current account, and mostly one or two others of different kinds."""
        for kind, share in (("current", 1.0), ("savings", 0.7), ("deposit", 0.4)):
            if self.rng.random() >= share:
                continue
            empty = kind != "current" and self.rng.random() < 0.25
            account = self.add(
                "accounts",
                self.new_key("accounts"),
                client=client,
                kind=kind,
                status="frozen" if self.rng.random() < 0.15 else "open",
                balance=0.0 if empty else self.money(300, 6_000),
                transactions=[],
            )
            if kind == "current":
                self._payments(account)
            yield account

    def _payments(self, account: str) -> None:
        """Add card payments at distinct merchants, oldest first, some too old to be disputed."""
        count = PAYMENTS + self.knobs["distractors"]
        most = self.dispute_days * 2
        ages = sorted((self.rng.randint(1, most) for _ in range(count)), reverse=True)
        for number, age in enumerate(ages, 1):
            key = self.add(
                "transactions",
                f"{account}-T{number}",
                account=account,
                kind="card",
                date=self.ago(age),
                party="",
                amount=-self.money(4, 280),
                dispute=None,
            )
            self.tables["accounts"][account]["transactions"].append(key)
        booked = self.tables["accounts"][account]["transactions"]
        for key, party in zip(booked, self.rng.sample(MERCHANTS, count), strict=True):
            self.tables["transactions"][key]["party"] = party

    def _cards(self, client: str, account: str) -> Iterator[str]:
        fours = self.rng.sample(range(1000, 10_000), 2)
        for kind, four in zip(("debit", "credit")[: self.rng.randint(1, 2)], fours, strict=False):
            frozen = self.rng.random() < 0.15
            yield self.add(
                "cards",
                self.new_key("cards"),
                client=client,
                account=account,
                kind=kind,
                last_four=str(four),
                status="frozen" if frozen else "active",
                frozen_for="lost" if frozen else None,
            )

    def _loans(self, client: str) -> Iterator[str]:
        count = self.rng.choice((0, 0, 1, 1, 2))
        for purpose in self.rng.sample(PURPOSES, count):
            owed = self.money(900, 9_000)
            yield self.add(
                "loans",
                self.new_key("loans"),
                client=client,
                purpose=purpose,
                owed=owed,
                monthly=round(owed / self.rng.randint(12, 60), 2),
            )

    def _beneficiaries(self, client: str) -> Iterator[str]:
        names = {draw_name(self.rng) for _ in range(3)}
        for number, name in enumerate(sorted(names)[: self.rng.randint(1, 3)], 1):
            yield self.add(
                "beneficiaries",
                f"{client}-B{number}",
                client=client,
                name=name,
                account_number=draw_number(self.rng),
            )


def draw_name(rng: Random) -> str:
    """A random full name."""
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def draw_number(rng: Random) -> str:
    """Return an account number at another bank: ten digits."""
    return f"{rng.randint(10**9, 10**10 - 1)}"
