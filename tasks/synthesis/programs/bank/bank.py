"""The program `bank`: instances of a bank, tasks in them, and their solver."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask
from tutti.tasks.synthesis.programs.bank.questions import QUESTIONS
from tutti.tasks.synthesis.programs.bank.records import BankMaker
from tutti.tasks.synthesis.programs.bank.solvers import SOLVERS, identify
from tutti.tasks.synthesis.programs.bank.spec import TABLES, TOOLS, rules
from tutti.tasks.synthesis.programs.bank.templates import CHANGES
from tutti.tasks.synthesis.programs.bank.templates import Bank as Instance
from tutti.tasks.synthesis.programs.evolving import EVOLVED, KNOB, with_harder
from tutti.tasks.synthesis.programs.intents import Caller, Composer, solve_wishes
from tutti.tasks.synthesis.programs.program import Knob, Knobs

SOURCE = Path(__file__).with_name("toolkit.py")


class Bank:
    """A bank for private clients."""

    name = "bank"
    version = "2"
    about = "clients, accounts, cards, transactions, loans and beneficiaries of a bank"
    knobs: Mapping[str, Knob] = {
        "steps": Knob(1, 1, 3, "intents of a task"),
        "distractors": Knob(1, 0, 5, "further card payments a client, namesakes in ten clients"),
        "tools": Knob(10, 4, len(TOOLS), "tools offered, where the task needs no more"),
        "customers": Knob(60, 20, 400, "clients of an instance"),
        KNOB: EVOLVED,
    }
    held_out = frozenset({"freeze_all", "spending"})

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """A bank with its own day, daily limit and days for disputes."""
        maker = BankMaker(rng, knobs)
        records = maker.make()
        return Domain(
            name=self.name,
            about="Policy of a bank for private clients",
            tables=TABLES,
            records=records,
            toolkit=SOURCE.read_text("utf-8"),
            tools=TOOLS,
            rules=rules(maker.today.isoformat(), maker.daily_limit, maker.dispute_days),
            lineage={"program": self.name, "version": self.version, "knobs": dict(knobs)},
        )

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """A task for each thing that a client of the instance may want."""
        bank = Instance(domain.records, rng)
        clients = domain.records["clients"]
        intents = {
            key: [
                intent for template in (*CHANGES, *QUESTIONS) for intent in template(bank, client)
            ]
            for key, client in clients.items()
        }

        def caller(key: str, rng: Random) -> Caller:
            return _caller(clients[key], rng)

        composer = Composer(domain, rng, knobs, self.held_out, caller)
        yield from with_harder(composer.tasks(intents), composer.harder, knobs[KNOB], "steps")

    def solve(self, task: DomainTask) -> Oracle:
        """Find the client, then solve intent after intent. Raises LookupError."""
        return solve_wishes(task, identify, SOLVERS)


def _caller(client: Mapping[str, str], rng: Random) -> Caller:
    entity = f"clients/{client['client_id']}"
    name = f"{client['first_name']} {client['last_name']}"
    if rng.random() < 0.4:
        phone = {"phone": client["phone"]}
        call = Action(name="find_client_by_phone", arguments=phone)
        said = rng.choice(
            (
                f"Your name is {name} and your phone number is {client['phone']}.",
                f"You are {name}, phone {client['phone']}.",
            )
        )
        return Caller(entity, said, call, phone)
    slots = {name: client[name] for name in ("first_name", "last_name", "birth_date")}
    call = Action(name="find_client_by_name", arguments=slots)
    known = rng.choice(
        (
            f"Your name is {name}; you were born on {client['birth_date']}.",
            f"You are {name}, born {client['birth_date']}.",
            f"You bank as {name}, and your date of birth is {client['birth_date']}.",
        )
    )
    return Caller(entity, known, call, slots)
