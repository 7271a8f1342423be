"""Generator program of the lending desk, for the tests of gates and of the pipeline."""

import json
from collections.abc import Iterator
from random import Random

from tests.synthesis.example import EXAMPLE, EXTENDED, LOAN
from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.synthesis.domains import Domain, DomainTask, changed_task
from tutti.tasks.synthesis.programs.base.program import Knob, Knobs, split_of

FIRST = "Ada Bo Cleo Dan Eve Finn Gus Hana Ivo June Kai Lena Max Nora Otto Pia".split()
LAST = "Long Reed Stone Moss Hill Brook Vale Marsh Ford Lake Wood Field".split()


class Lending:
    """Generator with a member and a loan each and one template; some candidates are wrong in a
    known way."""

    name, version, about = "lending", "1", "A lending desk."
    held_out: frozenset[str] = frozenset()

    def __init__(self) -> None:
        wrong = Knob(0, 0, 1, "every tenth is wrong")
        self.knobs = {"members": Knob(60, 2, 180, "members"), "wrong": wrong}

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        names = [f"{first} {last}" for first in FIRST for last in LAST]
        rng.shuffle(names)
        members, loans = {}, {}
        for n, name in enumerate(names[: knobs["members"]]):
            loan = {"member_id": f"M{n}", "name": name, "loans": [f"L{n}"]}
            members[f"M{n}"] = loan
            values = (f"L{n}", f"M{n}", f"Book {rng.randint(1, 999)}", rng.randint(3, 15), False)
            loans[f"L{n}"] = dict(zip(LOAN, values, strict=True))
        records = {"members": members, "loans": loans}
        return EXAMPLE.model_copy(update={"records": records})

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        for place, (key, member) in enumerate(domain.records["members"].items()):
            loan, days = domain.records["loans"][member["loans"][0]], rng.randint(16, 24)
            more = days - loan["days"]
            wrong = knobs["wrong"] and place % 10 == 0
            scenario = EXTENDED.world.scenario.model_copy(
                update={
                    "reason": f"You need your book for {more} more days.",
                    "known": f"Your name is {member['name']}.",
                }
            )
            calls = [each.model_copy(deep=True) for each in EXTENDED.world.actions]
            calls[0].arguments["name"] = member["name"]
            calls[1].arguments.update({"loan_id": loan["loan_id"], "days": more + bool(wrong)})
            over = EXTENDED.world.forbidden[0].model_copy(
                update={"arguments": {"loan_id": loan["loan_id"], "days": 29}}
            )
            yield changed_task(
                EXTENDED,
                family=domain.name,
                domain=domain.domain_id,
                split=split_of(key),
                scenario=scenario,
                actions=tuple(calls),
                forbidden=(over,),
                communicate=(str(days + bool(wrong)),),
                sources=(f"members/{key}",),
                slots={"name": member["name"], "days": str(more)},
            )

    def solve(self, task: DomainTask) -> Oracle:
        member = json.loads((yield ToolUse("find_member", {"name": task.slots["name"]})))
        asked = {"loan_id": member["loans"][0], "days": int(task.slots["days"])}
        loan = json.loads((yield ToolUse("extend_loan", asked)))
        return f"You have it for {loan['days']} days now."
