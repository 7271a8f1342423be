"""A source of domain tasks: instances by a program until there are enough tasks."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from tutti.tasks.synthesis.making.domain_parts import DomainParts
from tutti.tasks.synthesis.making.request import DomainRequest
from tutti.tasks.synthesis.making.workers import instances
from tutti.tasks.task_sets import SetInMaking

MOST_INSTANCES = 20
"""As many times the instances that would do if every candidate passed, before it is given up."""


class DomainSource(DomainParts):
    """The tasks of a program. Raises ToolkitFailed from its parts."""

    def __init__(self, request: DomainRequest, benchmarks: Sequence[str] = ()) -> None:
        """`benchmarks`: questions that no task may repeat."""
        self.request, self.benchmarks = request, benchmarks
        self.name, self.size = request.domain, request.size
        self.request_hash = self.work_name = request.request_hash

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """An instance each, until too many have given too few."""
        most = MOST_INSTANCES * (1 + self.request.size // self.request.instance_tasks)
        async with aclosing(instances(self.request, work, self.benchmarks)) as folders:
            async for folder in folders:
                yield folder
                if not made.accepted or len(made.parts) == most:
                    return

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """What was asked for."""
        asked = {"name": self.name, "asked": self.request.as_asked}
        return asked | {"compared_with": len(self.benchmarks)}

    def too_few(self, made: SetInMaking) -> str:
        """How many there are."""
        return (
            f"{self.name}: {len(made.accepted)} of {self.size} tasks passed the gates, of "
            f"{made.candidates} candidates over {len(made.parts)} databases; dropped by "
            f"{made.drops()}"
        )
