"""Gate: no task repeats a benchmark's question, by the rules of `leaks.index`."""

from collections.abc import Sequence
from functools import lru_cache

from tutti.storage import Home, query
from tutti.tasks.leaks import LeakIndex, own_texts, texts_of_sets
from tutti.tasks.synthesis.domains import DomainTask, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import PASSED, Verdict

QUESTIONS = """
    select distinct task_set_id, question from tasks
    where question is not null and template is null
        and task_id not in (select task_id from tasks where template is not null)
    order by question
"""


def benchmark_questions(home: Home) -> list[str]:
    """The questions of every benchmark in the store, of sets over the standard library, and of the
    user's own files. Raises UsageError.

    Tasks of domains are not among them, nor where they were measured as a benchmark: those of
    another seed come from the same templates.
    """
    return [*texts_of_sets(query(QUESTIONS, home)), *own_texts(home)]


class Contamination:
    """Looks for a context's `benchmarks` in what users are told."""

    name = "contamination"
    about = "The task copies no benchmark's question: as it is, in part, or with few words changed."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """`measured` is the share of words that both have."""
        return [copy_verdict(task.world.scenario.text, context.benchmarks) for task in tasks]

    def examples(self) -> Examples:
        """A question pasted whole, a part of a long one, and one with some words replaced."""
        short = "How many apples does Tom have after he buys 7 bags of 4?"
        long = (
            "A train leaves the station at noon with 120 passengers; at each of the next 5 stops "
            "12 get off and 9 get on. How many passengers are on it in the end?"
        )
        reworded = "How many apples does Tom own after he buys 7 paper bags of 4?"
        told = (f"You ask: {short}", f"Please help. {long[:100]}", reworded)
        bad = [
            EXTENDED.world.scenario.model_copy(update={"reason": each, "known": ""})
            for each in told
        ]
        bad[-1] = bad[-1].model_copy(update={"instructions": ""})
        return Examples(
            good=((EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)),
            bad=[(EXAMPLE, changed_task(EXTENDED, scenario=each)) for each in bad],
            benchmarks=(short, long, "What is the capital of the country where tea is grown?"),
        )


def copy_verdict(text: str, benchmarks: Sequence[str]) -> Verdict:
    """Whether a text copies no benchmark's."""
    index = _index_of(tuple(benchmarks))
    found = index.find(text, strict=True)
    if found is None:
        return PASSED
    copied = index.texts[found.place][:80]
    return Verdict(False, f"copies a benchmark's text ({found.how}): {copied!r}", found.covered)


@lru_cache(maxsize=2)
def _index_of(texts: tuple[str, ...]) -> LeakIndex:
    """The index of benchmarks' texts; that of the latest two lists is kept."""
    return LeakIndex(texts)
