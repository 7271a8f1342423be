"""The last parameter of a function. The pocket model never saw it: the demo teaches it."""

from collections.abc import Iterator, Sequence
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.parameter import MAX_PARAMETERS
from tutti.tasks.synthesis.task import entry_lines, labelled, question_task, search_for
from tutti.tasks.task_sets import Slots, Task

QUESTIONS = ("What is the last parameter of {name}?", "Which parameter comes last in {name}?")


class LastParameter:
    """Answer: the name of the last parameter."""

    name = "last_parameter"

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """One question for each document with 2 to 8 parameters."""
        for document in documents:
            parameters = document.parameters or ()
            if not 2 <= len(parameters) <= MAX_PARAMETERS or parameters[-1].name.startswith("*"):
                continue
            yield question_task(
                self.name,
                rng.choice(QUESTIONS).format(name=document.name),
                parameters[-1].name,
                {"name": document.name},
                (document.name,),
                document.split,
            )

    def solve(self, slots: Slots) -> Oracle:
        """Search the name, read the count, then the line with that number."""
        result = yield search_for(slots["name"])
        lines = entry_lines(result, slots["name"])
        return labelled(lines, labelled(lines, "takes")).split(" = ")[0]
