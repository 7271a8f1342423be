"""Tools of a desk that works by a workflow. Runs in the sandbox only.

The workflow stands in the tables `steps` and `edges`; a step's tool writes what it found into the
case's log and moves the case on. Below the last line, each tool of a desk is added by its name.
"""

from typing import Any, NoReturn

Database = dict[str, dict[str, dict[str, Any]]]
READING = ("get_case", "find_cases", "count_cases")
"""Tools that may be called at any step."""


def refuse(why: str) -> NoReturn:
    """End a call; what runs a toolkit gives it `ToolError`."""
    raise ToolError(why)  # type: ignore[name-defined]  # noqa: F821


def case_of(db: Database, case_id: str) -> dict[str, Any]:
    """A case."""
    if case_id not in db["cases"]:
        refuse(f"there is no case {case_id!r}")
    return db["cases"][case_id]


def step_with(db: Database, tool: str) -> dict[str, Any] | None:
    """The step at which a tool is called, if there is one."""
    return next((each for each in db["steps"].values() if each["tool"] == tool), None)


def admits(edge: dict[str, Any], value: Any) -> bool:
    """Whether an edge is taken with a value."""
    if edge["values"]:
        return value in edge["values"]
    above = edge["least"] is None or value >= edge["least"]
    return above and (edge["most"] is None or value <= edge["most"])


def move_on(db: Database, case: dict[str, Any], tool: str, value: Any) -> None:
    """Log a call, and move a case along the edge that admits the value."""
    case["log"].append(f"{tool}: {value}")
    step = step_with(db, tool)
    if step is None:
        return
    for edge in db["edges"].values():
        if edge["source"] == step["step_id"] and admits(edge, value):
            case["step"] = edge["target"]
    if db["steps"][case["step"]]["kind"] == "end":
        case["status"] = "closed"


def note(db: Database, tool: str, case_id: str, answer: str) -> dict[str, Any]:
    """Write an answer of the user down."""
    case = case_of(db, case_id)
    if case["status"] == "closed":
        refuse(f"{case_id} is closed")
    move_on(db, case, tool, answer)
    return {"case_id": case_id, "noted": answer}


def check(db: Database, tool: str, field: str, case_id: str) -> dict[str, Any]:
    """Look a value of a case up."""
    case = case_of(db, case_id)
    if case["status"] == "closed":
        refuse(f"{case_id} is closed")
    move_on(db, case, tool, case[field])
    return {"case_id": case_id, "value": case[field]}


def act(db: Database, tool: str, code: str, case_id: str) -> dict[str, Any]:
    """Do something to a case."""
    case = case_of(db, case_id)
    if case["status"] == "closed":
        refuse(f"{case_id} is closed")
    slip = f"{code}-{case['stamp']}"
    move_on(db, case, tool, slip)
    return {"case_id": case_id, "slip": slip}


def get_case(db: Database, case_id: str) -> dict[str, Any]:
    """What everybody at the desk sees of a case."""
    case = case_of(db, case_id)
    return {name: case[name] for name in ("case_id", "holder", "status", "step", "log")}


def find_cases(db: Database, holder: str) -> dict[str, Any]:
    """The cases of a person."""
    found = [each["case_id"] for each in db["cases"].values() if each["holder"] == holder]
    return {"holder": holder, "cases": found}


def count_cases(db: Database, status: str) -> dict[str, Any]:
    """How many cases have a status."""
    counted = sum(each["status"] == status for each in db["cases"].values())
    return {"status": status, "count": counted}


def in_order_only(db: Database, name: str, arguments: dict[str, Any]) -> str:
    """Whether a call is not what the workflow has for the case now."""
    case = db["cases"].get(arguments.get("case_id", ""))
    if case is None or name in READING:
        return ""
    step = db["steps"][case["step"]]
    right = step["tool"] == name
    return "" if right else f"{case['case_id']} is at {step['step_id']}, which is not {name}"


def listed_answers_only(db: Database, name: str, arguments: dict[str, Any]) -> str:
    """Whether a call writes an answer down that the workflow has no edge for."""
    step = step_with(db, name)
    if step is None or step["kind"] != "ask":
        return ""
    edges = [each for each in db["edges"].values() if each["source"] == step["step_id"]]
    known = any(arguments.get("answer") in each["values"] for each in edges)
    return "" if known else f"the workflow does not know the answer {arguments.get('answer')!r}"


def open_cases_only(db: Database, name: str, arguments: dict[str, Any]) -> str:
    """Whether a call would work on a closed case."""
    case = db["cases"].get(arguments.get("case_id", ""))
    return "the case is closed" if case is not None and case["status"] == "closed" else ""
