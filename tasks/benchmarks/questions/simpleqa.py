"""SimpleQA: 4,326 short questions with one fact as the answer; a judge says correct, incorrect or
not attempted, by its grader's rule in one vote; rule ``three_votes`` is ours."""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.headline import Headline
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``problem``, ``answer`` and ``metadata`` (topic, answer_type, urls)."""
    for number, row in enumerate(files.published()):
        question, answer = row.text("problem", "question"), row.name("answer")
        yield Task(
            key=str(number),
            inputs={"question": question},
            target={"answer": answer, "question": question},
            attributes=_attributes(row),
        )


def _attributes(row: Row) -> dict[str, str]:
    """Topic and type, in an object or beside the question."""
    if row.name_of("metadata") is None:
        return {name: row.text(name) for name in ("topic", "answer_type") if row.name_of(name)}
    found = row.literal("metadata")
    if not isinstance(found, dict):
        row.wrong(("metadata",), found, "an object")
    inner = row.inner("metadata", found)
    return {"subject": inner.text("topic"), "answer_type": inner.text("answer_type")}


SIMPLEQA = Benchmark(
    name="simpleqa",
    read=read,
    splits={"test": ("simple_qa_test_set.csv", "*.csv", "*.jsonl", "data/*.parquet")},
    scorer="simpleqa_judge",
    rules={"three_votes": "judge"},
    subsets="subject",
    reports=Headline("accuracy", metrics=("attempted",)),
    prompt="short_answer",
    hub=Hub("basicv8vc/SimpleQA", "e319282ab125c3dbd0c7fd00be2e4dd54e7e8f94"),
    licence="MIT; Wei et al. 2024, arXiv 2411.04368",
)
