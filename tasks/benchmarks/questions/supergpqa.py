"""SuperGPQA: 26,529 questions of 285 graduate disciplines, up to ten options each."""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.questions.choices import LETTERS, options_text, place_of
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task

ATTRIBUTES = {"subject": "discipline", "field": "field", "subfield": "subfield"}


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``question``, ``options``, ``answer_letter`` (or the letter as
    ``answer``) and ``discipline``."""
    for row in files.published():
        options = row.texts("options")
        letter = _letter(row, options)
        attributes = {name: row.text(column) for name, column in ATTRIBUTES.items()}
        yield Task(
            key=row.name("uuid", "id"),
            inputs={"question": row.text("question"), "choices": options_text(options)},
            target={"answer": letter, "choices": options},
            attributes=attributes | {"level": row.text_or("", "difficulty")},
        )


def _letter(row: Row, options: list[str]) -> str:
    if row.name_of("answer_letter") is None:
        return LETTERS[place_of(row, "answer", len(options))]
    gold = place_of(row, "answer_letter", len(options))
    said = row.text_or("", "answer")
    if said and options[gold] != said:
        row.bad("answer", f"is not option {LETTERS[gold]}")
    return LETTERS[gold]


SUPERGPQA = Benchmark(
    name="supergpqa",
    read=read,
    splits={"train": ("SuperGPQA-all.jsonl", "*.jsonl", "data/train-*.parquet")},
    scorer="choice",
    prompt="choice",
    hub=Hub("m-a-p/SuperGPQA", "4430d4458112c7d4497fdcf94d7cc223313d6acf"),
    licence="ODC-BY; M-A-P et al. 2025, arXiv 2502.14739",
)
