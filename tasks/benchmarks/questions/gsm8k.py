"""GSM8K: 1,319 word problems of grade-school arithmetic; the answer is a number."""

import re
from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.item import Item
from tutti.tasks.benchmarks.source import Files, Hub

# A solution's last line: "#### 1,234".
ANSWER = re.compile(r"####\s*(-?[\d,]*\.?\d+)\.?\s*$")


def read(files: Files) -> Iterator[Item]:
    """One item a row with ``question`` and ``answer`` (a solution that ends in ``#### number``)."""
    for number, row in enumerate(files.rows()):
        solution = row.text("answer")
        found = ANSWER.search(solution)
        if found is None:
            row.bad("answer", "does not end in '#### <number>'")
        answer = found[1].replace(",", "")
        fields = {"question": row.text("question"), "solution": solution}
        yield Item(str(number), fields, {"answer": answer})


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
