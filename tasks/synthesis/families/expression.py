"""Questions about an expression's output: pure standard-library calls on invented arguments."""

import importlib
from random import Random
from typing import Any

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.by_document import DocumentFamily, Draft
from tutti.tasks.synthesis.families.task import run_python
from tutti.tasks.task_sets import Slots

# Modules whose functions have no side effects, need no files and terminate quickly on small
# arguments.
PURE_MODULES = (
    "math operator string textwrap html posixpath ntpath heapq statistics keyword "
    "unicodedata colorsys fnmatch"
).split()
# Functions of these modules that depend on the file system, the user or the working folder: their
# results, and all later draws, would differ between checkouts.
IMPURE = frozenset(
    "abspath exists expanduser expandvars getatime getctime getmtime getsize isdir isfile islink "
    "isjunction ismount lexists realpath relpath samefile sameopenfile samestat walk".split()
)
QUESTIONS = ("What does {expression} print?", "What is printed by {expression}?")
WORDS = "apple river stone cloud amber delta maple tiger ocean silver".split()
LONGEST_ANSWER = 16
ARGUMENT_TRIES = 6  # per function: argument shapes tried until one evaluates
LARGEST_STARTING_ARGUMENT = 20  # keeps factorials and combinations small


def _solve(slots: Slots) -> Oracle:
    printed = yield run_python(program_for(slots["expression"]))
    return printed.strip()


def program_for(expression: str) -> str:
    """Return a one-line program that prints `expression`, importing the module at its start."""
    head = expression.split(".", 1)[0]
    imports = f"import {head}; " if head.isidentifier() else ""
    return f"{imports}print({expression})"


def _draw(document: Document, rng: Random) -> Draft | None:
    """Return a call of a pure function or a `str` method, and its output."""
    pure = document.module in PURE_MODULES and document.short_name not in IMPURE
    if pure and document.kind == "function":
        qualified, module = document.name, document.module
    elif document.name.startswith("builtins.str.") and document.kind == "method":
        qualified, module = None, "builtins"
    else:
        return None
    call = _first_that_evaluates(qualified, module, document.short_name, rng)
    return None if call is None else ({"expression": call[0]}, call[1])


def _first_that_evaluates(
    qualified: str | None, module: str, attribute: str, rng: Random
) -> tuple[str, str] | None:
    for _ in range(ARGUMENT_TRIES):
        subject = rng.choice(WORDS)
        function: Any = getattr(
            importlib.import_module(module) if qualified else subject, attribute
        )
        arguments = _arguments(rng)
        try:
            printed = str(function(*arguments))
        except (TypeError, ValueError, KeyError, ArithmeticError, AttributeError, LookupError):
            continue
        # The shape does not fit this function: try another. Library functions raise all kinds of
        # errors for a wrong argument; the families' gates judge what is kept.
        if not printed or len(printed) > LONGEST_ANSWER or not printed.isprintable():
            continue
        if printed != printed.strip() or " at 0x" in printed:
            continue
        inside = ", ".join(map(repr, arguments))
        return f"{qualified or repr(subject) + '.' + attribute}({inside})", printed
    return None


def _arguments(rng: Random) -> tuple[Any, ...]:
    number = rng.randint(1, LARGEST_STARTING_ARGUMENT)
    other = rng.randint(1, 9)
    word = rng.choice(WORDS)
    numbers = [rng.randint(1, 40) for _ in range(3)]
    one: list[tuple[Any, ...]] = [(), (number,), (number, other), (word,), (word, word[:2])]
    more = [(word[0],), (numbers,), (other, numbers), (number, other, number + other)]
    shapes = [*one, *more, (word[0], word[-1])]
    return rng.choice(shapes)


# Needs the sandbox, no search.
EXPRESSION = DocumentFamily("expression", QUESTIONS, _draw, _solve, most=4)
