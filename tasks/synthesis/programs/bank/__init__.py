"""A bank: clients with accounts, cards, transactions, loans and beneficiaries."""

from collections.abc import Mapping
from pathlib import Path

from tutti.tasks.synthesis.programs.bank import solvers, templates
from tutti.tasks.synthesis.programs.bank.records import BankMaker
from tutti.tasks.synthesis.programs.base.desks import DeskProgram, Template
from tutti.tasks.synthesis.programs.base.intents import IntentSolver
from tutti.tasks.synthesis.programs.base.program import EVOLVED, KNOB, Knob


class Bank(DeskProgram):
    """A bank for private clients, with its own day, daily limit and dispute period in days."""

    name = "bank"
    version = "2"
    about = "clients, accounts, cards, transactions, loans and beneficiaries of a bank"
    knobs: Mapping[str, Knob] = {
        "steps": Knob(1, 1, 3, "intents of a task"),
        "distractors": Knob(1, 0, 5, "further card payments a client, namesakes in ten clients"),
        "tools": Knob(10, 4, 16, "tools offered, where the task needs no more"),
        "customers": Knob(60, 20, 400, "clients of an instance"),
        KNOB: EVOLVED,
    }
    held_out = frozenset({"freeze_all", "spending"})
    folder = Path(__file__).parent
    people = "clients"
    maker = BankMaker
    desk = templates.Bank
    intents: Mapping[str, tuple[Template, IntentSolver]] = {
        "transfer": (templates.transfer, solvers.transfer),
        "pay_new": (templates.pay_new, solvers.pay_new),
        "lost_card": (templates.lost_card, solvers.lost_card),
        "freeze_all": (templates.freeze_all, solvers.freeze_all),
        "dispute": (templates.dispute, solvers.dispute),
        "repay": (templates.repay, solvers.repay),
        "empty_close": (templates.empty_close, solvers.empty_close),
        "close": (templates.close, solvers.close),
        "balances": (templates.balances, solvers.balances),
        "spending": (templates.spending, solvers.spending),
        "over_limit": (templates.over_limit, solvers.refused_balance),
        "frozen_pay": (templates.frozen_pay, solvers.refused_balance),
        "full_close": (templates.full_close, solvers.refused_balance),
        "old_dispute": (templates.old_dispute, solvers.refused_amount),
    }
