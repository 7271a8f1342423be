"""GPQA diamond: 198 questions of graduate physics, chemistry and biology, four options each.

The data give the right answer first; the options are shuffled by a hash of the task's id, and the
right one's place is the attribute ``gold_position`` (0 to 3), so that a preference for one letter
shows in SQL. The publisher asks not to reveal the data: do not publish prompts that contain them.
"""

import hashlib
from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.prepared import ANSWER as PREPARED
from tutti.tasks.benchmarks.questions.choices import (
    LETTERS,
    options_text,
    place_of,
    shuffled,
)
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task

WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``Question``, ``Correct Answer`` and three incorrect ones; or, as
    NeMo-Skills shuffled them, with ``options`` and the letter as ``answer``."""
    for row in files.published():
        if row.name_of("Question") is None and row.name_of(PREPARED):
            yield _as_shuffled(row)
            continue
        question = row.text("Question").strip()
        item_id = row.text("Record ID") if row.name_of("Record ID") else _hash(question)
        answers = [row.name(name).strip() for name in ("Correct Answer", *WRONG)]
        order = shuffled(len(answers), item_id)
        options = [answers[place] for place in order]
        gold = order.index(0)
        yield Task(
            key=item_id,
            inputs={"question": question, "choices": options_text(options)},
            target={"answer": LETTERS[gold], "choices": options},
            attributes=_attributes(row) | {"gold_position": str(gold)},
        )


def _as_shuffled(row: Row) -> Task:
    question, options = row.text("question").strip(), row.texts("options")
    gold = place_of(row, "answer", len(options))
    return Task(
        key=_hash(question),
        inputs={"question": question, "choices": options_text(options)},
        target={"answer": LETTERS[gold], "choices": options},
        attributes={"subdomain": row.text("category"), "gold_position": str(gold)},
    )


def _hash(question: str) -> str:
    return hashlib.sha256(question.encode()).hexdigest()[:16]


def _attributes(row: Row) -> dict[str, str]:
    named = {"subject": "High-level domain", "subdomain": "Subdomain"}
    return {name: row.text(column) for name, column in named.items() if row.name_of(column)}


GPQA = Benchmark(
    name="gpqa",
    read=read,
    splits={
        "diamond": ("gpqa_diamond.csv", "*diamond*.csv", "*diamond*.parquet", "*diamond*.jsonl"),
        "main": ("gpqa_main.csv", "main.jsonl"),
        "extended": ("gpqa_extended.csv", "extended.jsonl"),
    },
    scorer="choice",
    prompt="choice",
    hub=Hub("Idavidrein/gpqa", "633f5ee89ab8ad4522a9f850766b73f62147ffdd"),
    licence="CC BY 4.0, behind a licence on the hub; Rein et al. 2023, arXiv 2311.12022",
)
