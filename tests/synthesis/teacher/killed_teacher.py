"""Process that the test kills: generates the lending desk's domain at the URL of its first
argument, in the work folder of its second; a third argument selects batches."""

import asyncio
import sys
from pathlib import Path

from tests.synthesis.teacher.lending import SIZES
from tutti.tasks.synthesis.teacher import (
    Chain,
    Meter,
    Teacher,
    TeacherBudget,
    TeacherClient,
    TeacherEndpoint,
    TeacherRequest,
    make_tasks,
    open_store,
)


async def main(url: str, folder: str, *batch: str) -> None:
    """Generate the domain and print the number of tasks and the cost."""
    request = TeacherRequest(topic="the desk of a small library", batch=bool(batch), **SIZES)
    endpoint = TeacherEndpoint(url, "m")
    with open_store(Path(folder)) as store:
        async with TeacherClient(endpoint, store) as client:
            teacher = Teacher(client, store, Meter(TeacherBudget(), None))
            found = await make_tasks(Chain(request, teacher))
            print(len(found.tasks), teacher.meter.calls)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
