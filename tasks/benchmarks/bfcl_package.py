"""BFCL's categories that its package `bfcl-eval` itself must run: several turns, memory, Java and
JavaScript.

The splits are the categories, read from the package's own data (its folder ``bfcl_eval/data``).
The attempt is the package's (`deployments/harnesses/bfcl_episode.py`), and so is the score. A task
of a memory category is a scenario, with all of its questions, because they share the memory that
its conversations filled.

Not here: ``memory_vector`` (needs torch and an embedding model), ``web_search_*`` (need a paid
search service), ``format_sensitivity`` (no part of the overall score).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tutti.tasks.benchmarks.benchmark import Benchmark, no_gold
from tutti.tasks.benchmarks.headline import MEAN_SCORE, SHARE_RIGHT, Headline
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

COMMAND = "{bfcl}"
"""Runs an attempt in the package (`deployments/harnesses/bfcl_episode.py`)."""
MULTI_TURN = ("base", "miss_func", "miss_param", "long_context")
LANGUAGES = ("java", "javascript")
MEMORIES = ("kv", "rec_sum")


def read(files: Files) -> Iterator[Task]:
    """One task per question. Raises BadRow."""
    for row in files.rows():
        name = row.text("id")
        category = name.rpartition("_")[0]
        attributes = {"category": category, "turns": str(len(row.array("question")))}
        if row.name_of("involved_classes") is not None:
            attributes["classes"] = "+".join(sorted(row.texts("involved_classes")))
        yield Task(name, {"question": _asked(row)}, {}, attributes)


def read_scenarios(files: Files, category: str) -> Iterator[Task]:
    """One task per scenario of a memory. Raises BadRow."""
    rows = list(files.rows())
    for scenario, number in sorted(Counter(row.text("scenario") for row in rows).items()):
        question = f"{number} questions about what the user of scenario {scenario} said before."
        attributes = {"category": category, "questions": str(number)}
        yield Task(f"{category}_{scenario}", {"question": question}, {}, attributes)


def _asked(row: Row) -> str:
    """The first message of the user."""
    first = row.array("question")[:1]
    if not first or not isinstance(first[0], list) or not first[0]:
        row.bad("question", "the first turn has no message")
    messages = row.inner("", {"question": first[0]}).objects("question")
    return messages[-1].text("content")


def _files(category: str) -> Sequence[str]:
    return (f"BFCL_v4_{category}.json", f"data/BFCL_v4_{category}.json")


def _benchmark(name: str, categories: Sequence[str], headline: Headline = SHARE_RIGHT) -> Benchmark:
    return Benchmark(
        name=name,
        read=read,
        splits={category: _files(category) for category in categories},
        scorer="imported",
        reports=headline,
        subsets="category",
        prompt="plain",
        interactive=True,
        command=COMMAND,
        gold=no_gold,
        licence="Apache-2.0; Patil et al. 2025, Berkeley Function Calling Leaderboard",
    )


def _memory(kind: str) -> Benchmark:
    """A benchmark of its own: the questions of all kinds are in one file."""
    category = f"memory_{kind}"
    reading = partial(read_scenarios, category=category)
    made = _benchmark(f"bfcl-memory-{kind.replace('_', '-')}", (), MEAN_SCORE)
    return replace(made, read=reading, splits={category: _files("memory")})


BFCL_PACKAGE = (
    _benchmark("bfcl-multi-turn", [f"multi_turn_{kind}" for kind in MULTI_TURN]),
    _benchmark("bfcl-code", [f"simple_{language}" for language in LANGUAGES]),
    *(_memory(kind) for kind in MEMORIES),
)
