"""Hand-written responses of a teacher for one whole domain: the desk of a small library.

They have the API's format; no model wrote them. Some first responses are deliberately wrong, as a
real teacher's would be: the toolkit's signature, a record's reference, a rule that forbids nothing,
a golden call that the policy forbids.
"""

from typing import Any

BRANCH = """
def find_card(db, holder):
    \"\"\"The card of a holder.\"\"\"
    for card in db["cards"].values():
        if card["holder"] == holder:
            return card
    raise ToolError("no such holder: " + holder)


def list_loans(db, card_id):
    \"\"\"The loans on a card.\"\"\"
    if card_id not in db["cards"]:
        raise ToolError("no such card: " + card_id)
    return [each for each in db["loans"].values() if each["card"] == card_id]


def renew_loan(db, loan_id, days=7):
    \"\"\"Give a loan more days.\"\"\"
    if loan_id not in db["loans"]:
        raise ToolError("no such loan: " + loan_id)
    db["loans"][loan_id]["days_left"] += days
    return db["loans"][loan_id]
"""
RULES = """
def no_long_loan(db, name, arguments):
    if name != "renew_loan" or arguments["loan_id"] not in db["loans"]:
        return ""
    days = db["loans"][arguments["loan_id"]]["days_left"] + arguments.get("days", 7)
    return "a loan has at most 28 days left" if days > 28 else ""
"""
VOID_RULES = RULES.replace("days > 28", "days > 2800")


def field(name: str, kind: str = "text", **more: Any) -> dict[str, Any]:
    """Return a field in the format of structured outputs."""
    base: dict[str, Any] = {"about": "", "one_of": [], "refers_to": "", "least": None, "most": None}
    return {"name": name, "kind": kind, **base, "optional": False, **more}


def parameter(name: str, kind: str, optional: bool = False) -> dict[str, Any]:
    return {"name": name, "kind": kind, "about": f"the {name}", "optional": optional}


def arguments(**given: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in given.items()]


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments(**given)}


LOANS = [
    field("loan_id"),
    field("card", refers_to="cards"),
    field("title"),
    field("days_left", "integer", least=0, most=28),
]
TABLES = {
    "name": "library_desk",
    "about": "Policy of the library desk",
    "tables": [
        {
            "name": "cards",
            "key": "card_id",
            "about": "library cards",
            "fields": [
                field("card_id"),
                field("holder"),
                field("kind", one_of=["adult", "child"]),
            ],
        },
        {"name": "loans", "key": "loan_id", "about": "what is lent", "fields": LOANS},
    ],
}
CARDS = [
    {"card_id": "CA0001", "holder": "Ida Moor", "kind": "adult"},
    {"card_id": "CA0002", "holder": "Tom Vale", "kind": "child"},
]


def loan(number: int, card: str, title: str, days: int) -> dict[str, Any]:
    return {"loan_id": f"LO{number:04d}", "card": card, "title": title, "days_left": days}


def tool(name: str, kind: str, returns: list[str], *parameters: Any, **more: Any) -> dict[str, Any]:
    base = {"name": name, "kind": kind, "about": f"{name}.", "parameters": list(parameters)}
    return {**base, "changes": [], "returns": returns, **more}


CARD, LOAN = ["card_id", "holder", "kind"], ["loan_id", "card", "title", "days_left"]
RENEW = tool(
    "renew_loan",
    "WRITE",
    LOAN,
    parameter("loan_id", "text"),
    parameter("days", "integer", True),
    changes=["loans.days_left"],
)
TOOLS = [
    {
        "spec": tool("find_card", "READ", CARD, parameter("holder", "text")),
        "example": arguments(holder="Ida Moor"),
    },
    {
        "spec": tool("list_loans", "READ", [], parameter("card_id", "text")),
        "example": arguments(card_id="CA0001"),
    },
    {"spec": RENEW, "example": arguments(loan_id="LO0001", days=3)},
]
POLICY = {
    "code": RULES,
    "rules": [
        {
            "rule": {
                "id": "at_most_28",
                "text": "No loan has more than 28 days left.",
                "function": "no_long_loan",
            },
            "forbids": call("renew_loan", loan_id="LO0001", days=20),
        },
        {
            "rule": {"id": "say_days", "text": "Say the days that are left.", "function": None},
            "forbids": None,
        },
    ],
}
INTENTS = [
    {"template": "renew", "intent": "keep a book longer"},
    {"template": "days_left", "intent": "know how long a book may be kept"},
    {"template": "impossible", "intent": "something that no call can do"},
]


def scenario(reason: str, known: str) -> dict[str, str]:
    empty = {"unknown": "", "instructions": "", "persona": ""}
    return {"reason": reason, "known": known, **empty}


def task(reason: str, who: str, calls: list[Any], communicate: list[str]) -> dict[str, Any]:
    told = scenario(reason, f"Your name is {who}.")
    base = {"scenario": told, "calls": calls, "communicate": communicate}
    return {**base, "rules": ["at_most_28"], "forbidden": []}


IDA = [call("find_card", holder="Ida Moor"), call("list_loans", card_id="CA0001")]
TOM = [call("find_card", holder="Tom Vale"), call("list_loans", card_id="CA0002")]
RENEWED = task(
    "You want to keep Tides for 7 more days.",
    "Ida Moor",
    [*IDA, call("renew_loan", loan_id="LO0001", days=7)],
    ["17"],
) | {"forbidden": [call("renew_loan", loan_id="LO0001", days=20)]}
TOO_LONG = RENEWED | {"calls": [*IDA, call("renew_loan", loan_id="LO0001", days=20)]}
ASKED = task("How long may you keep Harbours?", "Tom Vale", TOM, ["21"])
POINTLESS = task("You want the moon.", "Tom Vale", TOM[:1], [])
HARDER = task(
    "You want to keep Tides 7 days more, and Reefs 2 days.",
    "Ida Moor",
    [*RENEWED["calls"], call("renew_loan", loan_id="LO0002", days=2)],
    ["17", "5"],
)
SCRIPT: dict[str, list[Any]] = {
    "tables": [TABLES],
    "records-cards-0-0": [{"items": CARDS}],
    "records-loans-0-0": [
        {"items": [loan(1, "CA0001", "Tides", 10), loan(2, "CA0009", "Reefs", 3)]},
        {"items": [loan(2, "CA0001", "Reefs", 3)]},
    ],
    "toolkit": [
        {"code": BRANCH.replace("loan_id, days=7", "days, loan_id"), "tools": TOOLS},
        {"code": BRANCH, "tools": TOOLS},
    ],
    "policy": [POLICY | {"code": VOID_RULES}, POLICY],
    "intents-0": [{"items": INTENTS}],
    "task-0": [TOO_LONG, RENEWED],
    "task-1": [ASKED],
    "task-2": [POINTLESS],
    "evolution-0-1": [RENEWED, HARDER],
    "evolution-1-1": [ASKED],
}
SCRIPT["records-loans-0-0"][0]["items"].append(loan(3, "CA0002", "Harbours", 21))
SCRIPT["records-cards-0-0"][0]["items"].append(
    {"card_id": "CA0003", "holder": "Uma Lind", "kind": "adult"}
)
SIZES = {"tables": 2, "records": 3, "chunk": 3, "tools": 3, "rules": 2, "intents": 3}
