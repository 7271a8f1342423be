"""The lending desk with hundreds of members and good tasks, and helpers to run gates."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from tests.synthesis.example import EXAMPLE, LOAN, varied
from tests.synthesis.gating.examples import Examples
from tutti.tasks.synthesis.domains import Action, Domain, DomainSpec, DomainTask, Scenario, Toolkit
from tutti.tasks.synthesis.gating.gate import Gate, GateContext
from tutti.tasks.task_sets import Verdict

FIRST = "Ada Bo Cleo Dan Eve Finn Gus Hana Ira Jo Kai Lea Max Nora Otto Pia Quin Rae Sam Ty".split()
LAST = "Long Reed Stone Marsh Brook Field Hill Wood Lake Ford Moss Vale Croft Dale Frost".split()
FORM = "Tides Harbours Rivers Winters Islands Gardens Engines Letters Maps Birds".split()
PLACE = "North South East West Inner Outer Upper Lower Far Near Old New Quiet Bright Deep".split()
EXTEND = (
    "You need your book for {days} more days.",
    "You have not finished your book and want to keep it {days} days longer.",
)
TITLE = ("You forgot which book you have.", "You want to know the title of the book you borrowed.")


def many_members(count: int = 250) -> Domain:
    """Return the lending desk with `count` members (at most 300), each with a loan."""
    members, loans = {}, {}
    for number in range(1, count + 1):
        member, loan = f"M{number}", f"L{1000 + number * 7}"
        name = f"{FIRST[number % 20]} {LAST[(number - 1) // 20]}"
        title = f"{PLACE[number // 10 % 15]} {FORM[number % 10]} {'I' * (1 + number // 150)}"
        members[member] = {"member_id": member, "name": name, "loans": [loan]}
        values = (loan, member, title, 7 + number % 8, False)
        loans[loan] = dict(zip(LOAN, values, strict=True))
    return varied(EXAMPLE, records={"members": members, "loans": loans})


def good_tasks(domain: Domain, rng: Random) -> list[DomainTask]:
    """Return two tasks per member: one that changes the loan, one that only reads."""
    tasks = []
    for number, member in enumerate(domain.records["members"].values()):
        loan = domain.records["loans"][member["loans"][0]]
        find = Action(name="find_member", arguments={"name": member["name"]})
        known, entities = f"Your name is {member['name']}.", (f"members/{member['member_id']}",)
        days = rng.randint(2, 9)
        begin = {"loans": {loan["loan_id"]: {"days": 15}}} if number % 5 == 0 else {}
        held = 15 if begin else loan["days"]
        extend = Action(name="extend_loan", arguments={"loan_id": loan["loan_id"], "days": days})
        tasks.append(
            DomainTask(
                family=domain.name,
                template="extend",
                split="train",
                sources=entities,
                slots={"name": member["name"], "days": str(days)},
                world=DomainSpec(
                    domain=domain.domain_id,
                    scenario=Scenario(
                        reason=rng.choice(EXTEND).format(days=days),
                        known=known,
                        instructions="Ask how many days you have then.",
                    ),
                    actions=(find, extend),
                    communicate=(str(held + days),),
                    rules=("longest", "polite"),
                    forbidden=(
                        Action(name="extend_loan", arguments={**extend.arguments, "days": 31}),
                    ),
                    changed=begin,
                ),
            )
        )
        look = Action(name="get_loan", arguments={"loan_id": loan["loan_id"]})
        tasks.append(
            DomainTask(
                family=domain.name,
                template="title",
                split="test",
                sources=entities,
                slots={"name": member["name"]},
                world=DomainSpec(
                    domain=domain.domain_id,
                    scenario=Scenario(reason=rng.choice(TITLE), known=known),
                    actions=(find, look),
                    communicate=(loan["title"],),
                ),
            )
        )
    return tasks


@asynccontextmanager
async def context_of(domain: Domain, benchmarks: Sequence[str] = ()) -> AsyncIterator[GateContext]:
    """Yield a context of a domain whose toolkit runs."""
    async with Toolkit(domain) as toolkit:
        yield GateContext(domain, toolkit, benchmarks=benchmarks)


async def replayed(context: GateContext, tasks: Sequence[DomainTask]) -> None:
    """Fill the context's replays, as the gate `executes` does."""
    replays = await context.toolkit.replay(tasks)
    ids = [task.task_id for task in tasks]
    context.replays.update(zip(ids, replays, strict=True))


async def judge_examples(gate: Gate, examples: Examples) -> tuple[list[Verdict], list[Verdict]]:
    """Return a gate's verdicts on its good and its bad examples."""
    good: list[Verdict] = []
    bad: list[Verdict] = []
    domains = {id(domain): domain for domain, _ in (*examples.good, *examples.bad)}.values()
    for domain in domains:
        async with context_of(domain, examples.benchmarks) as context:
            for cases, found in ((examples.good, good), (examples.bad, bad)):
                tasks = [task for other, task in cases if other is domain]
                await replayed(context, tasks)
                found += await gate.judge(tasks, context)
    return good, bad
