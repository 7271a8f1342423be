"""How many parameters two functions take together: two searches, then Python."""

from collections.abc import Iterator, Sequence
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.parameter import MAX_PARAMETERS
from tutti.tasks.synthesis.task import entry_lines, labelled, question_task, run_python, search_for
from tutti.tasks.task_sets import Slots, Task

QUESTIONS = (
    "How many parameters do {first} and {second} take together?",
    "Add the parameter counts of {first} and {second}.",
)


class CountSum:
    """Answer: the sum. The longest trajectory of the families: four calls."""

    name = "count_sum"

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """Random pairs of documents of the same split; half as many pairs as documents."""
        known = [d for d in documents if d.parameters and len(d.parameters) <= MAX_PARAMETERS]
        by_split: dict[str, list[Document]] = {}
        for document in known:
            by_split.setdefault(document.split, []).append(document)
        for split in sorted(by_split):
            members = by_split[split]
            for _ in range(len(members) // 2):
                if len(members) < 2:
                    break
                first, second = rng.sample(members, 2)
                total = len(first.parameters or ()) + len(second.parameters or ())
                slots = {"first": first.name, "second": second.name}
                question = rng.choice(QUESTIONS).format(**slots)
                sources = (first.name, second.name)
                yield question_task(self.name, question, str(total), slots, sources, split)

    def solve(self, slots: Slots) -> Oracle:
        """Search both, read their counts, let Python add."""
        counts = []
        for name in (slots["first"], slots["second"]):
            result = yield search_for(name)
            counts.append(labelled(entry_lines(result, name), "takes"))
        printed = yield run_python(f"print({' + '.join(counts)})")
        return printed.strip()
