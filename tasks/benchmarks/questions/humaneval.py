"""HumanEval: 164 Python functions to complete from their signature and docstring.

``target``: ``prompt`` (the start of the function, with its imports), ``tests`` (code that defines
``check``, which raises where the function it is given is wrong), ``entry_point`` (its name).
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``task_id``, ``prompt``, ``canonical_solution``, ``test``,
    ``entry_point``."""
    for row in files.rows():
        prompt, entry = row.text("prompt"), row.text("entry_point")
        yield Task(
            key=row.text("task_id"),
            inputs={"question": prompt},
            target={
                "prompt": prompt,
                "tests": row.text("test"),
                "entry_point": entry,
                "answer": prompt + row.text("canonical_solution"),
            },
        )


HUMANEVAL = Benchmark(
    name="humaneval",
    read=read,
    splits={"test": ("openai_humaneval/test-*.parquet", "*.parquet", "*.jsonl")},
    scorer="code",
    prompt="complete_code",
    hub=Hub("openai/openai_humaneval", "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544"),
    licence="MIT; Chen et al. 2021, arXiv 2107.03374",
)
