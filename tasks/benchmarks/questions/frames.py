"""FRAMES: 824 questions that need facts from several Wikipedia pages.

Scored by one vote by its autorater's rule; rules ``three_votes`` (ours) and ``toolorchestra``.
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """One task a row: the publisher's table (``Prompt``, ``Answer``, ``reasoning_types``,
    ``wiki_links``) or JSON lines with ``id``, ``question``, ``answer``."""
    for number, row in enumerate(files.rows()):
        question, answer = row.text("question", "Prompt"), row.name("answer", "Answer")
        target = {"answer": answer, "question": question}
        reasoning = row.text_or("", "reasoning_types")
        yield Task(
            key=row.name("id") if row.name_of("id") else str(number),
            inputs={"question": question},
            target=target | ({"documents": _links(row)} if row.name_of("wiki_links") else {}),
            attributes={"reasoning": reasoning} if reasoning else {},
        )


def _links(row: Row) -> list[str]:
    """The pages that contain the answer."""
    found = row.literal("wiki_links")
    if not isinstance(found, list) or not all(isinstance(link, str) for link in found):
        row.wrong(("wiki_links",), found, "a list of texts")
    return found


FRAMES = Benchmark(
    name="frames",
    read=read,
    splits={"test": ("frames.jsonl", "test.tsv", "test.jsonl", "*.parquet")},
    scorer="frames_judge",
    rules={"three_votes": "judge", "toolorchestra": "toolorchestra_judge"},
    prompt="short_answer",
    hub=Hub("google/frames-benchmark", "58d9fb6330f3ab1316d1eca12e5e8ef23dcc22ef"),
    licence="Apache-2.0; Krishna et al. 2024, arXiv 2409.12941",
)
