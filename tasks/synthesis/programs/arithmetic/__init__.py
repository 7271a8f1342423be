"""Arithmetic with tools: figures are looked up, computed with, and some results recorded."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.programs.arithmetic.office import OfficeMaker
from tutti.tasks.synthesis.programs.arithmetic.solving import solve_sum
from tutti.tasks.synthesis.programs.arithmetic.templates import HELD_OUT, TEMPLATES, Clerk
from tutti.tasks.synthesis.programs.base.declared import DeclaredProgram
from tutti.tasks.synthesis.programs.base.program import Knob, Knobs, take_turns, told_by


class Arithmetic(DeclaredProgram):
    """An office with price lists, recipes, meters and timetables. The entities of a task are those
    that it names; a recipe's products belong to every split."""

    name = "arithmetic"
    version = "2"
    about = "arithmetic with tools over price lists, recipes, meter readings and timetables"
    knobs: Mapping[str, Knob] = {
        "operands": Knob(4, 2, 8, "the most products in an order, and those in a recipe"),
        "distractors": Knob(2, 0, 6, "products with a similar name, and further readings"),
        "tools": Knob(2, 0, 6, "tools offered beside those that a task needs"),
        "recorded": Knob(50, 0, 100, "per cent of the tasks that write their result down"),
    }
    held_out = HELD_OUT
    folder = Path(__file__).parent

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """Return an office of about 450 records."""
        return self.domain(knobs, OfficeMaker(rng, knobs, self.declared.table_specs()).make())

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Yield tasks, alternating between all templates."""
        clerk = Clerk(domain, rng, knobs)
        draws = {template: partial(clerk.draw, template) for template in TEMPLATES}
        return take_turns(draws, told_by(domain), aside=("report",))

    def solve(self, task: DomainTask) -> Oracle:
        """Look up what the slots name and compute without the calculator."""
        return solve_sum(task)
