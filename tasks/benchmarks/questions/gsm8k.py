"""GSM8K: 1,319 word problems of grade-school arithmetic; the answer is a number. MGSM: 250 of them
in eleven languages.

A file of MGSM is a language (``mgsm_de.tsv``): question and answer, without a heading. The prompt
around its problems is English, so that the numbers differ from those of native prompts.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.errors import BadRow
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task

NUMBER = re.compile(r"-?[\d,]*\.?\d+")
# A solution's last line: "#### 1,234".
ANSWER = re.compile(r"####\s*(-?[\d,]*\.?\d+)\.?\s*$")


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``question`` and ``answer`` (a solution that ends in ``#### number``; or
    the number, with the solution beside)."""
    for number, row in enumerate(files.published()):
        given = row.value("answer")
        if isinstance(given, int | float) and not isinstance(given, bool):
            solution, answer = row.text_or("", "solution"), str(given)
        else:
            solution = row.text("answer")
            answer = _last_number(row, solution)
        fields = {"question": row.text("question"), "solution": solution}
        yield Task(str(number), fields, {"answer": answer})


def _last_number(row: Row, solution: str) -> str:
    found = ANSWER.search(solution)
    if found is None:
        row.bad("answer", "does not end in '#### <number>'")
    return found[1].replace(",", "")


def read_languages(files: Files) -> Iterator[Task]:
    """One task a line; its id is the language and the line."""
    for path in files.paths:
        try:
            yield from _of_language(path)
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadRow(path, None, "", f"not a table: {error}") from error


def _of_language(path: Path) -> Iterator[Task]:
    language = path.stem.removeprefix("mgsm_")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        for number, row in enumerate(rows, 1):
            if len(row) != 2 or not row[0].strip():
                raise BadRow(path, number, "", f"{len(row)} fields, not question, answer")
            if NUMBER.fullmatch(row[1].strip()) is None:
                raise BadRow(path, number, "answer", f"{row[1]!r} is no number")
            target = {"answer": row[1].strip().replace(",", "")}
            name = f"{language}-{number}"
            yield Task(name, {"question": row[0]}, target, {"language": language})


GSM8K = Benchmark(
    name="gsm8k",
    read=read,
    splits={
        "test": ("test.jsonl", "main/test-*.parquet", "test-*.parquet"),
        "train": ("train.jsonl", "main/train-*.parquet", "train-*.parquet"),
    },
    scorer="numeric",
    prompt="number",
    hub=Hub("openai/gsm8k", "cc7b047b6e5bb11b4f1af84efc572db110a51b3c"),
    licence="MIT; Cobbe et al. 2021, arXiv 2110.14168",
)
MGSM = Benchmark(
    name="mgsm",
    read=read_languages,
    splits={"test": ("mgsm_*.tsv",)},
    scorer="numeric",
    prompt="number",
    hub=Hub("juletxara/mgsm", "f52417ca77bd71e9888ddc29f92587660725d2b4"),
    licence="CC BY-SA 4.0; Shi et al. 2022, arXiv 2210.03057",
)
