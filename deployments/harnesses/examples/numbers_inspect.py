"""Word problems whose answer is a number, as an Inspect task. `data`: a JSONL file like GSM8K's."""

import json
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def numbers(data: str) -> Task:
    """A sample's id is its place in the file."""
    rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
    samples = [
        Sample(row["question"], target=row["answer"].rpartition("####")[2].strip(), id=str(place))
        for place, row in enumerate(rows)
    ]
    return Task(MemoryDataset(samples), solver=generate(), scorer=match(numeric=True))
