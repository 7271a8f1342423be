"""Gate: no task repeats a benchmark's question, by the rules of `leaks.index`."""

from collections.abc import Sequence
from functools import lru_cache

from tutti.storage import Home, query
from tutti.tasks.leaks import LeakIndex, own_texts, texts_of_sets
from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.task_sets import PASSED, Verdict

QUESTIONS = """
    select distinct task_set_id, question from tasks
    where question is not null and template is null
        and task_id not in (select task_id from tasks where template is not null)
    order by question
"""


def benchmark_questions(home: Home) -> list[str]:
    """Return the questions of every benchmark in the store, of sets over the standard library, and
    of the user's own files. Raises UsageError.

    Tasks of domains are left out, even if they were measured as a benchmark, because those of
    another seed come from the same templates.
    """
    return [*texts_of_sets(query(QUESTIONS, home)), *own_texts(home)]


async def judge_contamination(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Reject tasks whose scenario copies a text of the context's `benchmarks`. `measured` is the
    share of common words."""
    return [copy_verdict(task.world.scenario.text, context.benchmarks) for task in tasks]


def copy_verdict(text: str, benchmarks: Sequence[str]) -> Verdict:
    """Return a rejection if a text copies a benchmark's, else a pass."""
    index = _index_of(tuple(benchmarks))
    found = index.find(text, strict=True)
    if found is None:
        return PASSED
    copied = index.texts[found.place][:80]
    return Verdict(False, f"copies a benchmark's text ({found.how}): {copied!r}", found.covered)


_index_of = lru_cache(maxsize=2)(LeakIndex)
"""The index of benchmarks' texts; the latest two are cached."""
