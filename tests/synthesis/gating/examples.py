"""Tasks of the lending desk that each gate must pass, and tasks that it must reject."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.synthesis.example import EXAMPLE, EXTENDED, LOOKED_UP, TOOLKIT, varied
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, changed_task

Cases = Sequence[tuple[Domain, DomainTask]]


@dataclass(frozen=True)
class Examples:
    """Cases of a gate. Some gates compare with earlier tasks: run the good ones first, those of one
    domain in one context."""

    bad: Cases
    good: Cases = ((EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP))
    benchmarks: Sequence[str] = ()


def told(task: DomainTask, **changes: str) -> DomainTask:
    """Return a task with other texts of its scenario."""
    return changed_task(task, scenario=task.world.scenario.model_copy(update=changes))


def extend(loan: str, days: Any) -> Action:
    """Return a call of `extend_loan`."""
    return Action(name="extend_loan", arguments={"loan_id": loan, "days": days})


def look(loan: str) -> Action:
    """Return a call of `get_loan`."""
    return Action(name="get_loan", arguments={"loan_id": loan})


def with_tool(place: int, **changes: Any) -> Domain:
    """Return the domain with one tool changed."""
    tools = list(EXAMPLE.tools)
    tools[place] = tools[place].model_copy(update=changes)
    return varied(EXAMPLE, tools=tuple(tools))


def extended(*changes: dict[str, Any]) -> Cases:
    """Return `EXTENDED`, once with each of the changes."""
    return [(EXAMPLE, changed_task(EXTENDED, **each)) for each in changes]


def looked_up(*changes: dict[str, Any]) -> Cases:
    """Return `LOOKED_UP`, once with each of the changes."""
    return [(EXAMPLE, changed_task(LOOKED_UP, **each)) for each in changes]


GOOD: Cases = Examples(bad=()).good
FIND, EXTEND = EXTENDED.world.actions
RECORDS = EXAMPLE.records
DANGLING = {**RECORDS["members"], "M1": {**RECORDS["members"]["M1"], "loans": ["L9"]}}
SHORT = "How many apples does Tom have after he buys 7 bags of 4?"
LONG = (
    "A train leaves the station at noon with 120 passengers; at each of the next 5 stops "
    "12 get off and 9 get on. How many passengers are on it in the end?"
)
REWORDED = "How many apples does Tom own after he buys 7 paper bags of 4?"
CLOCK = TOOLKIT.replace(
    'loan["days"] += days', 'loan["days"] += days + time.perf_counter_ns() % 1009'
)
WRITES = TOOLKIT.replace("    return db[", '    db["loans"][loan_id]["days"] = 1\n    return db[')
OTHER_MEMBER = changed_task(
    told(EXTENDED, known="Your name is Bo Reed."),
    actions=(Action(name="find_member", arguments={"name": "Bo Reed"}), extend("L2", 7)),
    communicate=("28",),
    sources=("members/M2",),
    slots={"name": "Bo Reed", "days": "7"},
)
EXAMPLES = {
    "parses": Examples(
        extended(
            {"actions": (Action(name="renew_loan", arguments={"loan_id": "L1"}),)},
            {"actions": (extend("L1", "7"),)},
            {"tools": ("find_member",)},
            {"actions": (), "communicate": ()},
            {"scenario": EXTENDED.world.scenario.model_copy(update={"reason": " "})},
            {"scenario": told(EXTENDED, known="Your name is {name}.").world.scenario},
            {"rules": ("shortest",)},
            {"sources": ("members/M7",)},
        ),
        [*GOOD, (EXAMPLE, told(EXTENDED, reason="None of your books is late."))],
    ),
    "records": Examples(
        [
            (varied(EXAMPLE, records={**RECORDS, "members": DANGLING}), LOOKED_UP),
            *extended({"changed": {"loans": {"L1": {"days": 31}}}}),
            *extended({"changed": {"loans": {"L1": {"colour": "red"}}}}),
        ],
        [*GOOD, *extended({"changed": {"loans": {"L1": {"days": 30}}}})],
    ),
    "leak": Examples(
        [
            (with_tool(1, about="Look up a loan, such as Harbours."), LOOKED_UP),
            (with_tool(2, about="Give a loan more days. The answer is 21."), EXTENDED),
            (
                varied(
                    EXAMPLE,
                    rules=(
                        EXAMPLE.rules[0].model_copy(
                            update={"text": "No loan but L2 lasts over 30 days."}
                        ),
                    ),
                ),
                LOOKED_UP,
            ),
            (EXAMPLE, told(LOOKED_UP, reason="You forgot that you have Harbours.")),
        ],
        [
            *GOOD,
            (EXAMPLE, told(LOOKED_UP, reason="Is your book Harbours or Tides?")),
            *looked_up({"communicate": ("30",)}),
        ],
    ),
    "contamination": Examples(
        [
            (EXAMPLE, told(EXTENDED, reason=f"You ask: {SHORT}", known="")),
            (EXAMPLE, told(EXTENDED, reason=f"Please help. {LONG[:100]}", known="")),
            (EXAMPLE, told(EXTENDED, reason=REWORDED, known="", instructions="")),
        ],
        benchmarks=(SHORT, LONG, "What is the capital of the country where tea is grown?"),
    ),
    "executes": Examples(
        [
            *looked_up({"actions": (look("L9"),)}),
            *extended({"changed": {"loans": {"L1": {"returned": True}}}}),
        ]
    ),
    "replay": Examples(
        [
            *extended({"expected": "0" * 64}),
            (varied(EXAMPLE, toolkit=f"import time\n{CLOCK}"), EXTENDED),
        ],
        GOOD[:1],
    ),
    "no_op": Examples(
        [
            *looked_up({"communicate": ()}),
            *extended({"communicate": (), "actions": (extend("L1", 0),)}),
        ]
    ),
    "lasting": Examples(
        extended(
            {"actions": (FIND, EXTEND, extend("L2", 3), extend("L2", -3))},
            {"actions": (FIND, extend("L2", 3), EXTEND, extend("L2", -3))},
        ),
        extended({}, {"actions": (FIND, EXTEND, extend("L2", 3))}),
    ),
    "suffices": Examples(
        [
            (EXAMPLE, told(EXTENDED, known="")),
            (EXAMPLE, told(EXTENDED, reason="You need your book for longer.")),
            *extended({"actions": (EXTEND,)}),
        ],
        [*GOOD, (EXAMPLE, told(EXTENDED, reason="You need your book for seven more days."))],
    ),
    "described": Examples(
        [
            (with_tool(2, about="Look up how long a loan lasts."), EXTENDED),
            (with_tool(1, about="Look up a loan and its late_fee."), LOOKED_UP),
            (with_tool(2, parameters=EXAMPLE.tools[2].parameters[:1]), LOOKED_UP),
            (with_tool(1, returns=("loan_id", "member")), LOOKED_UP),
            (with_tool(2, changes=("loans.returned",)), EXTENDED),
            (varied(EXAMPLE, toolkit=WRITES), LOOKED_UP),
        ]
    ),
    "policy": Examples(
        extended({"actions": (extend("L1", 17),)}, {"forbidden": (extend("L1", 3),)})
    ),
    "oracle": Examples(
        [*extended({"communicate": ("Mountains",)}), *looked_up({"communicate": ("Mountains",)})]
    ),
    "blind": Examples(
        [
            (EXAMPLE, told(LOOKED_UP, known="Bo Reed; it is not Harbours.")),
            (with_tool(0, about="Find a member of Harbours."), LOOKED_UP),
        ]
    ),
    "duplicates": Examples(
        [
            (EXAMPLE, EXTENDED),
            (
                EXAMPLE,
                told(
                    EXTENDED,
                    reason="Your book is not finished; 7 days more would help.",
                    instructions="Find out how many days that makes.",
                ),
            ),
            *extended({"communicate": ("22",)}, {"actions": (FIND, look("L1"), EXTEND)}),
        ],
        [*GOOD, (EXAMPLE, OTHER_MEMBER)],
    ),
}
