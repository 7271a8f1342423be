"""AIME 2024, 2025 and 2026: 30 competition problems each; the answer is a whole number, 0 to 999.

Thirty items: one is worth 3.3 points, so run many trials (``aime-25:16``).
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.item import Item
from tutti.tasks.benchmarks.source import Files, Hub

LARGEST = 999


def read(files: Files) -> Iterator[Item]:
    """One item a row with ``problem`` and ``answer`` ("016" and 16 are both 16)."""
    for number, row in enumerate(files.rows()):
        answer = row.name("answer", "Answer").strip()
        if not answer.isascii() or not answer.isdigit() or int(answer) > LARGEST:
            row.bad(
                row.name_of("answer", "Answer") or "answer", f"{answer!r} is not 0 to {LARGEST}"
            )
        yield Item(
            id=row.name("id", "ID", "problem_idx")
            if row.name_of("id", "ID", "problem_idx")
            else str(number),
            fields={"question": row.text("problem", "question", "Problem")},
            target={"answer": str(int(answer))},
        )


AIME_24 = Benchmark(
    name="aime-24",
    read=read,
    splits={"train": ("data/train-*.parquet", "train-*.parquet", "*.jsonl")},
    scorer="math",
    prompt="math",
    hub=Hub("HuggingFaceH4/aime_2024", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"),
    licence="Problems (c) Mathematical Association of America, AIME 2024",
)
AIME_25 = Benchmark(
    name="aime-25",
    read=read,
    splits={"test": ("test.jsonl", "*.jsonl", "data/*.parquet")},
    scorer="math",
    prompt="math",
    hub=Hub("math-ai/aime25", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
    licence="Problems (c) Mathematical Association of America, AIME 2025",
)
AIME_26 = Benchmark(
    name="aime-26",
    read=read,
    splits={"test": ("test.jsonl", "*.jsonl", "data/*.parquet")},
    scorer="math",
    prompt="math",
    hub=Hub("math-ai/aime26", "79037aebdb6580008fb960d17cb21fd3099083e3"),
    licence="Problems (c) Mathematical Association of America, AIME 2026",
)
