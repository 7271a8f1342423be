"""Which module defines a function or class, asked by its short name."""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.task import entry_lines, labelled, question_task, search_for
from tutti.tasks.task_sets import Slots, Task

QUESTIONS = (
    "Which module defines {short}?",
    "What module is {short} in?",
    "Where does {short} come from? Name the module.",
)


class ModuleOf:
    """Answer: the module's name. Asks only about short names that are unique in the corpus."""

    name = "module"

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """One question for each function or class whose short name is unique."""
        owners = Counter(document.short_name for document in documents)
        for document in documents:
            if document.kind == "method" or owners[document.short_name] > 1:
                continue
            short = document.short_name
            yield question_task(
                self.name,
                rng.choice(QUESTIONS).format(short=short),
                document.module,
                {"short": short},
                (document.name,),
                document.split,
            )

    def solve(self, slots: Slots) -> Oracle:
        """Search the short name, read the module line."""
        result = yield search_for(slots["short"])
        return labelled(entry_lines(result, slots["short"]), "module")
