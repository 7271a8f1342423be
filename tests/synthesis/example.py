"""Small domain with good tasks: a lending desk."""

from typing import Any

from tutti.tasks.synthesis.domains import (
    Action,
    Domain,
    DomainSpec,
    DomainTask,
    FieldSpec,
    Parameter,
    Rule,
    Scenario,
    TableSpec,
    ToolSpec,
)

TOOLKIT = '''
def find_member(db, name):
    """The member with a name."""
    for member in db["members"].values():
        if member["name"] == name:
            return member
    raise ToolError(f"no member is called {name!r}")


def get_loan(db, loan_id):
    """A loan."""
    if loan_id not in db["loans"]:
        raise ToolError(f"there is no loan {loan_id!r}")
    return db["loans"][loan_id]


def extend_loan(db, loan_id, days):
    """Move a loan's end."""
    loan = get_loan(db, loan_id)
    if loan["returned"]:
        raise ToolError(f"{loan_id} is returned")
    loan["days"] += days
    return loan


def no_long_loans(db, name, arguments):
    """Whether a call would make a loan longer than 30 days."""
    if name != "extend_loan":
        return ""
    loan = db["loans"].get(arguments["loan_id"])
    long = loan is not None and loan["days"] + arguments["days"] > 30
    return "a loan lasts at most 30 days" if long else ""
'''

LOAN = ("loan_id", "member", "title", "days", "returned")
EXAMPLE = Domain(
    name="lending",
    about="Policy of the lending desk",
    tables=(
        TableSpec(
            name="members",
            key="member_id",
            about="who may borrow",
            fields=(
                FieldSpec(name="member_id", kind="text"),
                FieldSpec(name="name", kind="text"),
                FieldSpec(name="loans", kind="texts", refers_to="loans"),
            ),
        ),
        TableSpec(
            name="loans",
            key="loan_id",
            about="what is borrowed",
            fields=(
                FieldSpec(name="loan_id", kind="text"),
                FieldSpec(name="member", kind="text", refers_to="members"),
                FieldSpec(name="title", kind="text"),
                FieldSpec(name="days", kind="integer", least=1, most=30),
                FieldSpec(name="returned", kind="boolean"),
            ),
        ),
    ),
    records={
        "members": {
            "M1": {"member_id": "M1", "name": "Ada Long", "loans": ["L1"]},
            "M2": {"member_id": "M2", "name": "Bo Reed", "loans": ["L2"]},
        },
        "loans": {
            "L1": dict(zip(LOAN, ("L1", "M1", "Tides", 14, False), strict=True)),
            "L2": dict(zip(LOAN, ("L2", "M2", "Harbours", 21, False), strict=True)),
        },
    },
    toolkit=TOOLKIT,
    tools=(
        ToolSpec(
            name="find_member",
            kind="READ",
            about="Find a member by name.",
            parameters=(Parameter(name="name", kind="text", about="the full name"),),
            returns=("member_id", "name", "loans"),
        ),
        ToolSpec(
            name="get_loan",
            kind="READ",
            about="Look up a loan.",
            parameters=(Parameter(name="loan_id", kind="text", about="the loan's id"),),
            returns=LOAN,
        ),
        ToolSpec(
            name="extend_loan",
            kind="WRITE",
            about="Give a loan that is not returned so many more days.",
            parameters=(
                Parameter(name="loan_id", kind="text", about="the loan's id"),
                Parameter(name="days", kind="integer", about="how many more"),
            ),
            changes=("loans.days",),
            returns=LOAN,
        ),
    ),
    rules=(
        Rule(id="longest", text="No loan lasts more than 30 days.", function="no_long_loans"),
        Rule(id="polite", text="Say the new number of days."),
    ),
)
EXTENDED = DomainTask(
    family=EXAMPLE.name,
    template="extend",
    split="train",
    sources=("members/M1",),
    slots={"name": "Ada Long", "days": "7"},
    world=DomainSpec(
        domain=EXAMPLE.domain_id,
        scenario=Scenario(
            reason="You need your book for 7 more days.",
            known="Your name is Ada Long.",
            instructions="Ask how many days you have then.",
        ),
        actions=(
            Action(name="find_member", arguments={"name": "Ada Long"}),
            Action(name="extend_loan", arguments={"loan_id": "L1", "days": 7}),
        ),
        communicate=("21",),
        rules=("longest", "polite"),
        forbidden=(Action(name="extend_loan", arguments={"loan_id": "L1", "days": 17}),),
    ),
)
"""A good task that changes the database."""
LOOKED_UP = DomainTask(
    family=EXAMPLE.name,
    template="title",
    split="test",
    sources=("members/M2",),
    slots={"name": "Bo Reed"},
    world=DomainSpec(
        domain=EXAMPLE.domain_id,
        scenario=Scenario(
            reason="You forgot which book you have.", known="Your name is Bo Reed.", instructions=""
        ),
        actions=(
            Action(name="find_member", arguments={"name": "Bo Reed"}),
            Action(name="get_loan", arguments={"loan_id": "L2"}),
        ),
        communicate=("Harbours",),
    ),
)
"""A good task that only reads."""


def varied(domain: Domain, **changes: Any) -> Domain:
    """Return a domain with some of its fields replaced."""
    kept = {name: getattr(domain, name) for name in Domain.model_fields}
    return Domain(**{**kept, **changes})
