"""MMLU-Pro: 12,032 questions of 14 subjects, up to ten options each."""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.questions.choices import LETTERS, options_text, place_of
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task

IDS = ("question_id", "id")
FILLER = "N/A"  # the data pad some questions' options with it; it is not shown to models


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``question``, ``options``, ``answer`` (a letter) and ``category``."""
    for number, row in enumerate(files.published()):
        options = row.texts("options")
        gold = _gold(row, len(options))
        kept = [place for place, text in enumerate(options) if text != FILLER or place == gold]
        answer = LETTERS[kept.index(gold)]
        shown = [options[place] for place in kept]
        yield Task(
            key=row.name(*IDS) if row.name_of(*IDS) else str(number),
            inputs={"question": row.text("question"), "choices": options_text(shown)},
            target={"answer": answer, "choices": shown},
            attributes={
                "subject": row.text("category"),
                "source": row.text_or("", "src"),
                "gold_position": str(kept.index(gold)),
            },
        )


def _gold(row: Row, count: int) -> int:
    gold = place_of(row, "answer", count)
    if row.name_of("answer_index") and row.whole("answer_index") != gold:
        row.bad("answer_index", f"{row.whole('answer_index')} is not the place of {LETTERS[gold]}")
    return gold


MMLU_PRO = Benchmark(
    name="mmlu-pro",
    read=read,
    splits={
        "test": ("data/test-*.parquet", "test-*.parquet", "test.jsonl"),
        "validation": ("data/validation-*.parquet", "validation-*.parquet", "validation.jsonl"),
    },
    scorer="choice",
    subsets="subject",
    prompt="choice",
    hub=Hub("TIGER-Lab/MMLU-Pro", "b189ec765aa7ed75c8acfea42df31fdae71f97be"),
    licence="MIT; Wang et al. 2024, arXiv 2406.01574",
)
