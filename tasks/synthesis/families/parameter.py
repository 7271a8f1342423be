"""The n-th parameter of a function, class or method (`self` and `cls` are not counted)."""

from collections.abc import Iterator, Sequence
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.task import entry_lines, labelled, question_task, search_for
from tutti.tasks.task_sets import Slots, Task

QUESTIONS = (
    "What is parameter {position} of {name}?",
    "Name parameter {position} of {name}.",
    "Which parameter is number {position} in {name}?",
)
MAX_PARAMETERS = 8  # longer signatures crowd out a small context


class NthParameter:
    """Answer: the parameter's name."""

    name = "parameter"

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """One question for each document with 2 to 8 named parameters."""
        for document in documents:
            parameters = document.parameters or ()
            if not 2 <= len(parameters) <= MAX_PARAMETERS:
                continue
            position = rng.randint(1, len(parameters))
            parameter = parameters[position - 1].name
            if parameter.startswith("*"):
                continue
            yield question_task(
                self.name,
                rng.choice(QUESTIONS).format(position=position, name=document.name),
                parameter,
                {"name": document.name, "position": str(position)},
                (document.name,),
                document.split,
            )

    def solve(self, slots: Slots) -> Oracle:
        """Search the name, read the numbered line."""
        result = yield search_for(slots["name"])
        line = labelled(entry_lines(result, slots["name"]), slots["position"])
        return line.split(" = ")[0]
