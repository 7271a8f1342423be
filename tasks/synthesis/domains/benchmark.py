"""A domain's folder as a benchmark: the agent serves a simulated customer, or works alone.

In: a folder of `write_domain_folder`. Out: a `Benchmark` whose tasks are the tasks of a split. The
domain's code runs in the sandbox. The scorer ``dialogue`` asks for the state that a task expects
and for what the agent must have said.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.errors import UsageError
from tutti.tasks.benchmarks import EXPERTS, Benchmark, BenchmarkError, Files, Task, World
from tutti.tasks.synthesis.domains.domain import Domain, DomainTask
from tutti.tasks.synthesis.domains.folder import SPLITS, domain_folders, read_domain_folder
from tutti.tasks.synthesis.domains.world import DomainWorld
from tutti.tasks.task_sets import TASKS

if TYPE_CHECKING:
    from tutti.tasks.agents import ChatModel


def domain_benchmark(
    name: str, folder: Path, split: str | None = None, solo: bool = False
) -> Benchmark:
    """The benchmark of the domain in `folder`, or of a set's several databases in folders below it;
    `split` is ``test`` where it is not named.

    `solo`: no user is simulated; the scenario is the first message, and the agent's first message
    without calls ends the attempt. Raises BenchmarkError where the folder holds no domain.
    """
    try:
        domains = {each: read_domain_folder(each)[0] for each in domain_folders(folder)}
    except UsageError as error:
        raise BenchmarkError(str(error)) from None
    reader = _Reader(domains, split or SPLITS[0], solo)
    known = {domain.domain_id: domain for domain in domains.values()}
    return Benchmark(
        name=name,
        read=reader.read,
        splits={each: (TASKS, f"*/{TASKS}") for each in SPLITS},
        scorer="dialogue",
        prompt="policy",
        licence="yours",
        own=folder,
        interactive=True,
        world=partial(_world, known, solo),
        has_toolkit=True,
        needs_user=not solo,
        gold=_facts,
    )


@dataclass(frozen=True)
class _Reader:
    domains: Mapping[Path, Domain]
    split: str
    solo: bool

    def read(self, _: Files) -> Iterator[Task]:
        """The split's tasks. Raises BenchmarkError for one that cannot be scored."""
        try:
            for folder in self.domains:
                yield from self._items(folder)
        except UsageError as error:
            raise BenchmarkError(str(error)) from None

    def _items(self, folder: Path) -> Iterator[Task]:
        tasks = read_domain_folder(folder)[1]
        return (self._task(task, folder) for task in tasks if task.split == self.split)

    def _task(self, task: DomainTask, folder: Path) -> Task:
        domain = self.domains[folder]
        if not task.world.expected:
            raise BenchmarkError(
                f"{folder / TASKS}: {task.task_id}: expected: is empty, so nothing says what "
                "is right; `tutti synth` fills it"
            )
        target: dict[str, Any] = {
            "state": {"db": task.world.expected},
            "communicate": list(task.world.communicate),
            "world": task.world.model_dump(mode="json", exclude_defaults=True),
            "domain": domain.domain_id,
        }
        if task.world.offer is not None and task.world.offer.experts:
            target[EXPERTS] = {a: e.model_dump() for a, e in task.world.offer.experts.items()}
        asked = {"role": "user", "content": task.question}
        return replace(
            task,
            key=task.task_id,
            stored_id=task.task_id,
            inputs={
                "policy": _policy(domain, task, self.solo),
                "scenario": task.world.scenario.text,
            },
            target=target,
            attributes=_attributes(task),
            given=(asked,) if self.solo else (),
            tools=domain.schemas(task),
        )


def _policy(domain: Domain, task: DomainTask, solo: bool) -> str:
    """The policy. In a dialogue the user may forget the instruction, so the agent is given it."""
    if task.world.offer is None or solo:
        return domain.policy
    return f"{domain.policy}\nThe user's preference: {task.world.offer.preference.instruction}\n"


def _attributes(task: DomainTask) -> dict[str, str]:
    knobs = {f"difficulty_{name}": str(value) for name, value in task.difficulty.items()}
    plain = {
        "template": task.template,
        "split": task.split,
        "actions": str(len(task.world.actions)),
    }
    return {**plain, **knobs, **task.attributes}


def _facts(task: Task) -> str:
    """A message that says all that must be said."""
    return "; ".join(task.target["communicate"]) or "done"


def _world(
    domains: Mapping[str, Domain], solo: bool, task: Task, user: "ChatModel | None"
) -> World:
    """The world of one attempt at `task`. Raises BenchmarkError without a model for the user."""
    return DomainWorld(domains[task.target["domain"]], task, user, solo)
