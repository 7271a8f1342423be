"""Sets of domain tasks by a program: the request, its plan, and the source.

A set consists of instances: each is a database with the candidates that the gates accepted. An
instance depends only on the request and its number, so several processes make the same set as one.
"""

import asyncio
import atexit
import itertools
import multiprocessing
import os
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import aclosing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tutti.errors import ExitCode, TuttiError
from tutti.storage import content_hash
from tutti.tasks.synthesis.domains import Domain, DomainTask, Toolkit, changed_task
from tutti.tasks.synthesis.gating import GATES, TOGETHER
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.domain_parts import DomainParts, write_domain_part
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.base.program import Program
from tutti.tasks.task_sets import Judged, SetInMaking, SetPlan, is_judged, run_gates

PIPELINE_VERSION = "2"
MACHINE_FIELDS = frozenset({"workers"})
"""Fields that do not change the set."""


class SetUnfinished(TuttiError, RuntimeError):
    """A teacher's budget or endpoint ended before its tasks did; finished ones are stored."""

    exit_code = ExitCode.INCOMPLETE


class DomainRequest(BaseModel):
    """The parameters of a set of domain tasks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["domain"] = Field("domain", description="a domain by a program")
    domain: str = Field(
        "retail",
        description="which program makes it",
        json_schema_extra={"enum": list(PROGRAMS)},  # choices
    )
    size: int = Field(200, ge=1, le=1_000_000, description="tasks that pass every gate")
    seed: int = Field(0, description="decides the records, and what is asked of them")
    knobs: dict[str, int] = Field(
        default_factory=dict, description="difficulty and sizes of the domain, by name"
    )
    instance_tasks: int = Field(
        250, ge=1, le=5_000, description="most tasks over one database; more tasks, more databases"
    )
    contamination: bool = Field(
        True, description="compare with the questions of every task set and benchmark in the store"
    )
    workers: int = Field(1, ge=1, le=64, description="processes; the set is the same")

    def model_post_init(self, _: Any) -> None:
        """Reject unknown domains and knobs with an error that lists the known ones."""
        if self.domain not in PROGRAMS:
            raise ValueError(f"domain: no program {self.domain!r}; known: {', '.join(PROGRAMS)}")
        known = self.program.knobs
        for name, value in self.knobs.items():
            if name not in known:
                raise ValueError(f"knobs.{name}: {self.domain} has {', '.join(known)}")
            if not known[name].least <= value <= known[name].most:
                allowed = f"{known[name].least} to {known[name].most}"
                raise ValueError(f"knobs.{name}: {value} is not in {allowed}")

    @property
    def program(self) -> Program:
        """The program of the domain."""
        return PROGRAMS[self.domain]

    @property
    def every_knob(self) -> dict[str, int]:
        """The knobs with their defaults."""
        return {name: each.value for name, each in self.program.knobs.items()} | self.knobs

    @property
    def databases(self) -> int:
        """The number of instances, if each gives as many tasks as requested from it."""
        return -(-self.size // self.instance_tasks)

    def wanted(self, number: int) -> int:
        """Return the most tasks of an instance. It depends only on the request, so that instances
        can be made in parallel; one beyond `databases` replaces the missing tasks of others."""
        left = self.size - number * self.instance_tasks
        return min(self.instance_tasks, left if left > 0 else self.size)

    @property
    def as_asked(self) -> dict[str, Any]:
        """All fields that determine the set."""
        return self.model_dump(exclude=set(MACHINE_FIELDS)) | {"knobs": self.every_knob}

    @property
    def request_hash(self) -> str:
        """Hash of `as_asked`, and of the program's and the gates' versions."""
        return content_hash([PIPELINE_VERSION, self.program.version, list(GATES), self.as_asked])


BATCH = 260
"""Candidates shown to a gate at once: an instance's 250 tasks, and some to be dropped."""
PART = 65
"""Candidates of a part of a batch; parts pass the gates concurrently."""
MOST_CANDIDATES = 6
"""Candidates for each wanted task, after which an instance counts as exhausted."""


async def make_instance(
    request: DomainRequest, number: int, folder: Path, benchmarks: Sequence[str] = ()
) -> None:
    """Make an instance in `folder`, completely or not at all, unless it exists.

    Raises ToolkitFailed if the domain's code fails.
    """
    if is_judged(folder):
        return
    domain, candidates = proposed(request, number)
    judged: list[Judged[DomainTask]] = []
    async with Toolkit(domain) as toolkit:
        context = GateContext(domain, toolkit, request.program.solve, benchmarks)
        wanted = request.wanted(number)
        left = itertools.islice(candidates, MOST_CANDIDATES * wanted)
        while batch := list(itertools.islice(left, BATCH)):
            judged += await judge(batch, context)
            if sum(each.reason is None for each in judged) >= wanted:
                break
    passed = itertools.accumulate(each.reason is None for each in judged)
    needed = sum(1 for count in passed if count < wanted) + 1  # to the last that is wanted
    write_domain_part(folder, domain, judged[:needed])


def proposed(request: DomainRequest, number: int) -> tuple[Domain, Iterator[DomainTask]]:
    """Return the domain of an instance, and its candidates."""
    program, knobs = request.program, request.every_knob
    rng = Random(f"{request.seed}/{program.name}/{number}")
    domain = program.build(rng, knobs)
    lineage = {"generator": program.name, "version": program.version, "seed": request.seed}
    lineage |= {"instance": number, "knobs": knobs}
    domain = domain.model_copy(update={"lineage": domain.lineage | lineage})
    return domain, program.propose(domain, rng, knobs)


async def judge(tasks: Sequence[DomainTask], context: GateContext) -> list[Judged[DomainTask]]:
    """Pass candidates through the gates in order; a rejected task goes no further. Raises
    ToolkitFailed.

    Gates that judge tasks one by one get them in parts, and while the sandbox works on one part,
    this process works on another. The verdicts are the same.
    """
    judged = [Judged(task) for task in tasks]
    gates = list(GATES.values())
    alone = min(place for place, gate in enumerate(gates) if gate.name in TOGETHER)
    try:
        async with asyncio.TaskGroup() as group:
            for first in range(0, len(judged), PART):
                part = judged[first : first + PART]
                group.create_task(run_gates(part, gates[:alone], context))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    await run_gates(judged, gates[alone:], context)
    for each in judged:
        replay = context.forget(each.task)
        if each.reason is None and replay is not None:
            each.task = changed_task(each.task, expected=replay.after)
    return judged


PARENT_POLL_S = 0.5
_benchmarks: Sequence[str] = ()
"""Texts of a worker process; they are sent once, not with each instance."""


def instance_folder(work: Path, number: int) -> Path:
    """Return the folder of an instance."""
    return work / f"instance-{number:04}"


async def instances(
    request: DomainRequest, work: Path, benchmarks: Sequence[str]
) -> AsyncGenerator[Path, None]:
    """Yield the folders of instances in order, from 0, endlessly; close the generator when there
    are enough tasks. Raises what `make_instance` raises."""
    if request.workers == 1:
        for number in itertools.count():
            folder = instance_folder(work, number)
            # In a thread: an instance takes seconds of this process's time.
            await asyncio.to_thread(asyncio.run, make_instance(request, number, folder, benchmarks))
            yield folder
    with _pool(min(request.workers, request.databases), benchmarks) as pool:
        waiting: deque[Future[None]] = deque()
        for made in itertools.count():
            # An unused instance costs time at the end: beyond those that surely are needed, start
            # one by one, and more the more databases gave too few.
            needed = request.databases - made
            needed = needed if needed > 0 else 1 - needed
            for number in range(made + len(waiting), made + min(needed, request.workers + 1)):
                waiting.append(pool.submit(_make, request, number, work))
            await asyncio.wrap_future(waiting.popleft())
            yield instance_folder(work, made)


@contextmanager
def _pool(workers: int, benchmarks: Sequence[str]) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    given = (os.getpid(), benchmarks)
    pool = ProcessPoolExecutor(workers, context, _begin, given)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, benchmarks: Sequence[str]) -> None:
    global _benchmarks
    _benchmarks = benchmarks
    # Skips DuckDB's list of leaks at the interpreter's end; all is written by then.
    atexit.register(os._exit, 0)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def _make(request: DomainRequest, number: int, work: Path) -> None:
    asyncio.run(make_instance(request, number, instance_folder(work, number), _benchmarks))


MOST_INSTANCES = 20
"""Times the instances that would suffice if every candidate passed, after which it is given up."""


class DomainSource(DomainParts):
    """The tasks of a program. `parts` raises ToolkitFailed."""

    def __init__(self, request: DomainRequest, benchmarks: Sequence[str] = ()) -> None:
        """`benchmarks`: questions that no task may repeat."""
        self.request, self.benchmarks = request, benchmarks
        self.name, self.size = request.domain, request.size
        self.request_hash = self.work_name = request.request_hash

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield one instance at a time, until too many have given too few tasks."""
        most = MOST_INSTANCES * (1 + self.request.size // self.request.instance_tasks)
        async with aclosing(instances(self.request, work, self.benchmarks)) as folders:
            async for folder in folders:
                yield folder
                if not made.accepted or len(made.parts) == most:
                    return

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """Return the request."""
        asked = {"name": self.name, "asked": self.request.as_asked}
        return asked | {"compared_with": len(self.benchmarks)}

    def too_few(self, made: SetInMaking) -> str:
        """Return the counts of tasks, candidates and databases."""
        return (
            f"{self.name}: {len(made.accepted)} of {self.size} tasks passed the gates, of "
            f"{made.candidates} candidates over {len(made.parts)} databases; dropped by "
            f"{made.drops()}"
        )


SAMPLE = 100
"""Candidates of the sample, of the request's first database."""


async def plan_domain_set(request: DomainRequest, benchmarks: Sequence[str] = ()) -> SetPlan:
    """Judge a sample and extrapolate from it. Raises ToolkitFailed."""
    domain, candidates = await asyncio.to_thread(proposed, request, 0)
    sample = list(itertools.islice(candidates, SAMPLE))
    async with Toolkit(domain) as toolkit:
        context = GateContext(domain, toolkit, request.program.solve, benchmarks)
        began = time.monotonic()
        judged = await judge(sample, context)
        each_s = (time.monotonic() - began) / max(1, len(sample))
    passed = sum(one.reason is None for one in judged)
    wanted = request.size * len(sample) / max(1, passed)
    databases = request.databases
    return SetPlan(
        sample=len(sample),
        passed=passed,
        dropped=Counter(one.gates[-1] for one in judged if one.reason is not None),
        candidates=round(wanted),
        seconds=wanted * each_s,
        notes=[f"about {wanted:,.0f} candidates over {databases:,.0f} databases"],
    )
