"""A domain's folder as a benchmark: the agent serves a simulated customer, or works alone.

In: a folder of `write_domain_folder`. Out: a `Benchmark` of the tasks of a split. The domain's code
runs in the sandbox. The scorer ``dialogue`` compares the state with the task's, and checks that the
agent communicated the required facts.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.errors import UsageError
from tutti.tasks.benchmarks import Benchmark, BenchmarkError, Files, Task, World
from tutti.tasks.synthesis.domains.domain import Domain, DomainTask
from tutti.tasks.synthesis.domains.folder import SPLITS, domain_folders, read_domain_folder
from tutti.tasks.synthesis.domains.world import DomainWorld
from tutti.tasks.task_sets import EXPERTS, TASKS

if TYPE_CHECKING:
    from tutti.tasks.agents.models import ChatModel


def domain_benchmark(
    name: str, folder: Path, split: str | None = None, solo: bool = False
) -> Benchmark:
    """Return the benchmark of the domain in `folder`, or of a set's several databases in folders
    below it; `split` is ``test`` by default.

    `solo`: no user is simulated; the scenario is the first message, and the agent's first message
    without calls ends the attempt. Raises BenchmarkError if the folder has no domain.
    """
    try:
        domains = {each: read_domain_folder(each)[0] for each in domain_folders(folder)}
    except UsageError as error:
        raise BenchmarkError(str(error)) from None
    wanted, known = split or SPLITS[0], {each.domain_id: each for each in domains.values()}

    def read(_: Files) -> Iterator[Task]:
        try:
            for each, domain in domains.items():
                tasks = read_domain_folder(each)[1]
                yield from (_item(t, domain, each, solo) for t in tasks if t.split == wanted)
        except UsageError as error:
            raise BenchmarkError(str(error)) from None

    def world(task: Task, user: "ChatModel | None") -> World:
        return DomainWorld(known[task.target["domain"]], task, user, solo)

    return Benchmark(
        name=name,
        read=read,
        splits={each: (TASKS, f"*/{TASKS}") for each in SPLITS},
        scorer="dialogue",
        prompt="policy",
        licence="yours",
        own=folder,
        interactive=True,
        world=world,
        has_toolkit=True,
        needs_user=not solo,
        gold=lambda task: "; ".join(task.target["communicate"]) or "done",
    )


def _item(task: DomainTask, domain: Domain, folder: Path, solo: bool) -> Task:
    """Return a task in the form for sweeps. Raises BenchmarkError for one that cannot be scored."""
    world, offer, policy = task.world, task.world.offer, domain.policy
    if not world.expected:
        raise BenchmarkError(
            f"{folder / TASKS}: {task.task_id}: expected: is empty, so nothing says what "
            "is right; `tutti synth` fills it"
        )
    target: dict[str, Any] = {
        "state": {"db": world.expected},
        "communicate": list(world.communicate),
        "world": world.model_dump(mode="json", exclude_defaults=True),
        "domain": domain.domain_id,
    }
    if offer is not None and offer.experts:
        target[EXPERTS] = {alias: each.model_dump() for alias, each in offer.experts.items()}
    if offer is not None and not solo:  # in a dialogue the user may forget the instruction
        policy += f"\nThe user's preference: {offer.preference.instruction}\n"
    attributes = {"template": task.template, "split": task.split}
    attributes |= {"actions": str(len(world.actions))}
    attributes |= {f"difficulty_{name}": str(value) for name, value in task.difficulty.items()}
    return replace(
        task,
        key=task.task_id,
        stored_id=task.task_id,
        inputs={"policy": policy, "scenario": world.scenario.text},
        target=target,
        attributes=attributes | dict(task.attributes),
        given=({"role": "user", "content": task.question},) if solo else (),
        tools=domain.schemas(task),
    )
