"""The default value of a parameter, as Python would print it."""

from collections.abc import Iterator, Sequence
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.parameter import MAX_PARAMETERS
from tutti.tasks.synthesis.task import entry_lines, question_task, search_for
from tutti.tasks.task_sets import Slots, Task

QUESTIONS = (
    "What is the default of {parameter} in {name}?",
    "Which default does {parameter} have in {name}?",
    "In {name}, what is {parameter} by default?",
)
# `None` is over half of all defaults; keeping every one would let a guess score half.
KEEP_NONE_SHARE = 0.12
KEEP_BOOLEAN_SHARE = 0.5


class DefaultValue:
    """Answer: the `repr` of the default."""

    name = "default"

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """One question per document with a literal default; frequent defaults are thinned out."""
        for document in documents:
            parameters = document.parameters or ()
            choices = [p for p in parameters if p.default is not None and p.default != "..."]
            if not choices or len(parameters) > MAX_PARAMETERS:
                continue
            chosen = rng.choice(choices)
            share = {"None": KEEP_NONE_SHARE, "True": KEEP_BOOLEAN_SHARE}
            share["False"] = KEEP_BOOLEAN_SHARE
            if rng.random() >= share.get(str(chosen.default), 1.0):
                continue
            yield question_task(
                self.name,
                rng.choice(QUESTIONS).format(parameter=chosen.name, name=document.name),
                str(chosen.default),
                {"name": document.name, "parameter": chosen.name},
                (document.name,),
                document.split,
            )

    def solve(self, slots: Slots) -> Oracle:
        """Search the name, read what follows ``parameter =``."""
        result = yield search_for(slots["name"])
        return default_in(entry_lines(result, slots["name"]), slots["parameter"])


def default_in(lines: list[str], parameter: str) -> str:
    """The default of `parameter` in a document's lines. Raises LookupError."""
    for line in lines:
        head, separator, default = line.partition(" = ")
        if separator and head.split(" ", 1)[-1] == parameter:
            return default
    raise LookupError(f"no default for {parameter!r} in {lines[:1]}")
