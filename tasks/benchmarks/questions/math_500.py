"""MATH-500: 500 competition problems; the answer is an expression in LaTeX."""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``problem``, ``answer``, ``subject``, ``level`` and ``unique_id``."""
    for number, row in enumerate(files.published()):
        yield Task(
            key=row.text("unique_id") if row.name_of("unique_id") else str(number),
            inputs={"question": row.text("problem")},
            target={"answer": row.name("answer")},
            attributes={"subject": row.text("subject"), "level": row.name("level")},
        )


MATH_500 = Benchmark(
    name="math-500",
    read=read,
    splits={"test": ("test.jsonl",)},
    scorer="math",
    subsets="subject",
    prompt="math",
    hub=Hub("HuggingFaceH4/MATH-500", "ff5b20257d8185524591543f8ff5993951537bb8"),
    licence="MIT; Hendrycks et al. 2021, arXiv 2103.03874; Lightman et al. 2023, arXiv 2305.20050",
)
