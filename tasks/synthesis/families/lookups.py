"""Families whose answer is one lookup: a module, a parameter, a default, the last parameter."""

from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.by_document import MAX_PARAMETERS, DocumentFamily, Draft
from tutti.tasks.synthesis.families.task import entry_lines, labelled, search_for
from tutti.tasks.task_sets import Slots

# `None` is over half of all defaults; keeping every one would let a guess score half.
KEPT_SHARES = {"None": 0.12, "True": 0.5, "False": 0.5}


def _module(document: Document, rng: Random) -> Draft | None:
    if document.kind == "method":
        return None
    return {"short": document.short_name}, document.module


def _solve_module(slots: Slots) -> Oracle:
    result = yield search_for(slots["short"])
    return labelled(entry_lines(result, slots["short"]), "module")


def _parameter(document: Document, rng: Random) -> Draft | None:
    parameters = document.parameters or ()
    if not 2 <= len(parameters) <= MAX_PARAMETERS:
        return None
    position = rng.randint(1, len(parameters))
    name = parameters[position - 1].name
    slots = {"name": document.name, "position": str(position)}
    return None if name.startswith("*") else (slots, name)


def _solve_parameter(slots: Slots) -> Oracle:
    result = yield search_for(slots["name"])
    line = labelled(entry_lines(result, slots["name"]), slots["position"])
    return line.split(" = ")[0]


def _default(document: Document, rng: Random) -> Draft | None:
    parameters = document.parameters or ()
    choices = [p for p in parameters if p.default is not None and p.default != "..."]
    if not choices or len(parameters) > MAX_PARAMETERS:
        return None
    chosen = rng.choice(choices)
    if rng.random() >= KEPT_SHARES.get(str(chosen.default), 1.0):
        return None
    return {"name": document.name, "parameter": chosen.name}, str(chosen.default)


def _solve_default(slots: Slots) -> Oracle:
    result = yield search_for(slots["name"])
    return default_in(entry_lines(result, slots["name"]), slots["parameter"])


def default_in(lines: list[str], parameter: str) -> str:
    """Return the default of `parameter` in a document's lines. Raises LookupError."""
    for line in lines:
        head, separator, default = line.partition(" = ")
        if separator and head.split(" ", 1)[-1] == parameter:
            return default
    raise LookupError(f"no default for {parameter!r} in {lines[:1]}")


def _last_parameter(document: Document, rng: Random) -> Draft | None:
    parameters = document.parameters or ()
    if not 2 <= len(parameters) <= MAX_PARAMETERS or parameters[-1].name.startswith("*"):
        return None
    return {"name": document.name}, parameters[-1].name


def _solve_last_parameter(slots: Slots) -> Oracle:
    result = yield search_for(slots["name"])
    lines = entry_lines(result, slots["name"])
    return labelled(lines, labelled(lines, "takes")).split(" = ")[0]


MODULE = DocumentFamily(
    "module",
    (
        "Which module defines {short}?",
        "What module is {short} in?",
        "Where does {short} come from? Name the module.",
    ),
    _module,
    _solve_module,
    unique_names=True,
)
# `self` and `cls` are not counted.
PARAMETER = DocumentFamily(
    "parameter",
    (
        "What is parameter {position} of {name}?",
        "Name parameter {position} of {name}.",
        "Which parameter is number {position} in {name}?",
    ),
    _parameter,
    _solve_parameter,
)
DEFAULT = DocumentFamily(
    "default",
    (
        "What is the default of {parameter} in {name}?",
        "Which default does {parameter} have in {name}?",
        "In {name}, what is {parameter} by default?",
    ),
    _default,
    _solve_default,
)
# The pocket model never saw it: the demo teaches it.
LAST_PARAMETER = DocumentFamily(
    "last_parameter",
    ("What is the last parameter of {name}?", "Which parameter comes last in {name}?"),
    _last_parameter,
    _solve_last_parameter,
)
