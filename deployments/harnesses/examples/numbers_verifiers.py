"""Word problems whose answer is a number, as a verifiers taskset. `data`: JSONL like GSM8K's."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

__all__ = ["NumbersTaskset"]


class NumbersData(vf.TaskData):
    """A problem."""

    answer: str


class NumbersTask(vf.Task[NumbersData]):
    """Right if the last number that the model wrote is the answer."""

    @vf.reward
    async def last_number(self, trace: vf.Trace[Any, Any, Any]) -> float:
        """1 or 0."""
        numbers = re.findall(r"-?\d+", str(trace.assistant_messages[-1].content))
        return float(numbers[-1:] == [self.data.answer])


class NumbersConfig(vf.TasksetConfig):
    """Where the problems are."""

    data: str = ""


class NumbersTaskset(vf.Taskset[NumbersTask, NumbersConfig]):
    """A task's id is its place in the file."""

    def load(self) -> Iterator[NumbersTask]:
        """One task a line."""
        for place, line in enumerate(Path(self.config.data).read_text().splitlines()):
            row = json.loads(line)
            answer = row["answer"].rpartition("####")[2].strip()
            data = NumbersData(id=str(place), prompt=row["question"], answer=answer)
            yield NumbersTask(data, self.config.task)
