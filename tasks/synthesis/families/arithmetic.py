"""Arithmetic over a looked-up value: an integer default, plus, minus or times a number."""

from collections.abc import Iterator, Sequence
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.default import default_in
from tutti.tasks.synthesis.families.parameter import MAX_PARAMETERS
from tutti.tasks.synthesis.task import entry_lines, question_task, run_python, search_for
from tutti.tasks.task_sets import Slots, Task

OPERATIONS = {"plus": "+", "minus": "-", "times": "*"}
QUESTIONS = (
    "What is the default of {parameter} in {name} {word} {number}?",
    "Compute the default of {parameter} in {name} {word} {number}.",
)
LARGEST_DEFAULT = 100_000


class Arithmetic:
    """Answer: the integer result. Needs a search, then Python."""

    name = "arithmetic"

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """Two questions for each document with an integer default."""
        for document in documents:
            parameters = document.parameters or ()
            choices = [p for p in parameters if _is_small_integer(p.default)]
            if not choices or len(parameters) > MAX_PARAMETERS:
                continue
            for _ in range(2):
                chosen = rng.choice(choices)
                word = rng.choice(sorted(OPERATIONS))
                number = rng.randint(2, 99)
                value = int(str(chosen.default))
                results = {"plus": value + number, "minus": value - number, "times": value * number}
                slots = {"name": document.name, "parameter": chosen.name}
                slots |= {"word": word, "number": str(number)}
                yield question_task(
                    self.name,
                    rng.choice(QUESTIONS).format(**slots),
                    str(results[word]),
                    slots,
                    (document.name,),
                    document.split,
                )

    def solve(self, slots: Slots) -> Oracle:
        """Search the name, read the default, let Python compute."""
        result = yield search_for(slots["name"])
        default = default_in(entry_lines(result, slots["name"]), slots["parameter"])
        operator = OPERATIONS[slots["word"]]
        printed = yield run_python(f"print({default} {operator} {slots['number']})")
        return printed.strip()


def _is_small_integer(default: str | None) -> bool:
    digits = (default or "").removeprefix("-")
    return digits.isdecimal() and int(digits) <= LARGEST_DEFAULT
