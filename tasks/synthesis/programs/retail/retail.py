"""The program `retail`: instances of a shop, tasks in them, and their solver."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask
from tutti.tasks.synthesis.programs.evolving import EVOLVED, KNOB, with_harder
from tutti.tasks.synthesis.programs.intents import Caller, Composer, solve_wishes
from tutti.tasks.synthesis.programs.program import Knob, Knobs
from tutti.tasks.synthesis.programs.retail.questions import QUESTIONS
from tutti.tasks.synthesis.programs.retail.records import ShopMaker
from tutti.tasks.synthesis.programs.retail.solvers import SOLVERS, identify
from tutti.tasks.synthesis.programs.retail.spec import TABLES, TOOLS, rules
from tutti.tasks.synthesis.programs.retail.templates import CHANGES, Shop

SOURCE = Path(__file__).with_name("toolkit.py")


class Retail:
    """A shop for the home."""

    name = "retail"
    version = "2"
    about = "customers, products with variants, orders, payments and refunds of a shop"
    knobs: Mapping[str, Knob] = {
        "steps": Knob(1, 1, 3, "intents of a task"),
        "distractors": Knob(1, 0, 5, "cancelled orders a customer, namesakes in ten customers"),
        "tools": Knob(9, 4, len(TOOLS), "tools offered, where the task needs no more"),
        "customers": Knob(80, 20, 400, "customers of an instance"),
        KNOB: EVOLVED,
    }
    held_out = frozenset({"move", "wrong_refund"})

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """A shop with its own day and days for returns."""
        maker = ShopMaker(rng, knobs)
        records = maker.make()
        return Domain(
            name=self.name,
            about="Policy of a shop for the home",
            tables=TABLES,
            records=records,
            toolkit=SOURCE.read_text("utf-8"),
            tools=TOOLS,
            rules=rules(maker.today.isoformat(), maker.return_days),
            lineage={"program": self.name, "version": self.version, "knobs": dict(knobs)},
        )

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """A task for each thing that a customer of the instance may want."""
        shop = Shop(domain.records, rng)
        customers = domain.records["customers"]
        intents = {
            key: [
                intent for template in (*CHANGES, *QUESTIONS) for intent in template(shop, customer)
            ]
            for key, customer in customers.items()
        }

        def caller(key: str, rng: Random) -> Caller:
            return _caller(customers[key], rng)

        composer = Composer(domain, rng, knobs, self.held_out, caller)
        yield from with_harder(composer.tasks(intents), composer.harder, knobs[KNOB], "steps")

    def solve(self, task: DomainTask) -> Oracle:
        """Find the customer, then solve intent after intent. Raises LookupError."""
        return solve_wishes(task, identify, SOLVERS)


def _caller(customer: Mapping[str, str], rng: Random) -> Caller:
    entity = f"customers/{customer['customer_id']}"
    name = f"{customer['first_name']} {customer['last_name']}"
    if rng.random() < 0.4:
        email = {"email": customer["email"]}
        call = Action(name="find_customer_by_email", arguments=email)
        said = f"Your name is {name} and your email address is {customer['email']}."
        unknown_zip = rng.choice(("You do not remember the zip code you gave.", ""))
        return Caller(entity, f"{said} {unknown_zip}".strip(), call, email)
    slots = {name: customer[name] for name in ("first_name", "last_name")}
    slots["zip_code"] = customer["zip"]
    call = Action(name="find_customer_by_name", arguments=slots)
    known = rng.choice(
        (
            f"Your name is {name} and your zip code is {customer['zip']}.",
            f"You are {name}, zip code {customer['zip']}.",
            f"You are registered as {name} with zip code {customer['zip']}.",
        )
    )
    return Caller(entity, known, call, slots)
