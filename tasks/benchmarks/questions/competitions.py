"""Competition mathematics beside AIME: HMMT February 2025 (30 problems) and Omni-MATH (4,428 of
olympiads).

The answers are compared as expressions. Omni-MATH's publisher has a model judge them: some of its
answers are words, which no program compares. Its number here is by the scorer `math`, and the
report says so.
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.item import Item
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub


def read_hmmt(files: Files) -> Iterator[Item]:
    """One item a row with ``problem`` and ``answer``; ``problem_type`` is a list of fields."""
    for number, row in enumerate(files.rows()):
        yield Item(
            id=row.name("problem_idx", "id") if row.name_of("problem_idx", "id") else str(number),
            fields={"question": row.text("problem")},
            target={"answer": row.name("answer")},
            attributes={"subject": _joined(row, "problem_type")},
        )


def read_omni(files: Files) -> Iterator[Item]:
    """One item a row with ``problem``, ``answer``, ``domain``, ``difficulty`` (1 to 10) and
    ``source``."""
    for number, row in enumerate(files.rows()):
        level = row.value("difficulty")
        if isinstance(level, bool) or not isinstance(level, int | float):
            row.wrong(("difficulty",), level, "a number")
        domains = row.texts("domain") if row.name_of("domain") else []
        yield Item(
            id=str(number),
            fields={"question": row.text("problem")},
            target={"answer": row.name("answer")},
            attributes={
                "subject": _field(domains[0]) if domains else "",
                "level": f"{level:g}",
                "source": row.text_or("", "source"),
            },
        )


def _field(domain: str) -> str:
    """``Mathematics -> Algebra -> Equations``: the second is the field."""
    return domain.split(" -> ")[min(1, domain.count(" -> "))]


def _joined(row: Row, name: str) -> str:
    return ", ".join(row.texts(name)) if row.name_of(name) else ""


HMMT_FEB_25 = Benchmark(
    name="hmmt-feb-25",
    read=read_hmmt,
    splits={"train": ("data/train-*.parquet", "train-*.parquet", "*.jsonl")},
    scorer="math",
    prompt="math",
    hub=Hub("MathArena/hmmt_feb_2025"),
    licence="CC BY-NC-SA 4.0; Balunovic et al. 2025, arXiv 2505.23281; problems (c) HMMT",
)
OMNI_MATH = Benchmark(
    name="omni-math",
    read=read_omni,
    splits={"test": ("test.jsonl", "*.jsonl", "data/test-*.parquet")},
    scorer="math",
    prompt="math",
    hub=Hub("KbsdJames/Omni-MATH"),
    licence="Apache-2.0; Gao et al. 2024, arXiv 2410.07985",
)
