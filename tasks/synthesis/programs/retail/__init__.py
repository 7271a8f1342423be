"""A home goods shop: customers, products with variants, orders, payments and refunds."""

from collections.abc import Mapping
from pathlib import Path

from tutti.tasks.synthesis.programs.base.desks import DeskProgram, Template
from tutti.tasks.synthesis.programs.base.intents import IntentSolver
from tutti.tasks.synthesis.programs.base.program import EVOLVED, KNOB, Knob
from tutti.tasks.synthesis.programs.retail import solvers, templates
from tutti.tasks.synthesis.programs.retail.records import ShopMaker


class Retail(DeskProgram):
    """A home goods shop, with its own current day and return period in days."""

    name = "retail"
    version = "2"
    about = "customers, products with variants, orders, payments and refunds of a shop"
    knobs: Mapping[str, Knob] = {
        "steps": Knob(1, 1, 3, "intents of a task"),
        "distractors": Knob(1, 0, 5, "cancelled orders a customer, namesakes in ten customers"),
        "tools": Knob(9, 4, 14, "tools offered, where the task needs no more"),
        "customers": Knob(80, 20, 400, "customers of an instance"),
        KNOB: EVOLVED,
    }
    held_out = frozenset({"move", "wrong_refund"})
    folder = Path(__file__).parent
    people = "customers"
    maker = ShopMaker
    desk = templates.Shop
    intents: Mapping[str, tuple[Template, IntentSolver]] = {
        "cancel": (templates.cancel, solvers.cancel),
        "cancel_two": (templates.cancel_two, solvers.cancel_two),
        "return": (templates.return_some, solvers.return_some),
        "return_gift": (templates.return_gift, solvers.return_gift),
        "exchange": (templates.exchange, solvers.exchange),
        "address": (templates.address, solvers.address),
        "move": (templates.move, solvers.move),
        "total": (templates.total, solvers.total),
        "spent": (templates.spent, solvers.spent),
        "late_return": (templates.late_return, solvers.refused_sum),
        "wrong_exchange": (templates.wrong_exchange, solvers.refused_sum),
        "wrong_refund": (templates.wrong_refund, solvers.refused_sum),
        "late_cancel": (templates.late_cancel, solvers.refused_card),
    }
