"""The lending desk with the expected states of its tasks, as a generator's pipeline completes
it."""

from pathlib import Path

from tests.synthesis.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    Toolkit,
    changed_task,
    write_domain_folder,
)

CHANGED = changed_task(
    EXTENDED,
    split="test",
    changed={"loans": {"L1": {"days": 3}}},
    communicate=("10",),
    tools=("find_member", "extend_loan"),
)
"""The same intent where the loan is shorter, with fewer tools."""
TASKS = (EXTENDED, LOOKED_UP, CHANGED)


async def expected_of(domain: Domain, tasks: tuple[DomainTask, ...]) -> tuple[DomainTask, ...]:
    """Return the tasks with the states after their golden calls."""
    async with Toolkit(domain) as toolkit:
        replays = await toolkit.replay(tasks)
    assert not any(each.failure for each in replays)
    pairs = zip(tasks, replays, strict=True)
    return tuple(changed_task(task, expected=made.after) for task, made in pairs)


async def lending_folder(folder: Path) -> tuple[DomainTask, ...]:
    """Write the lending desk as a folder and return its tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = await expected_of(EXAMPLE, TASKS)
    write_domain_folder(folder, EXAMPLE, tasks)
    return tasks
