"""A source of domain tasks: a teacher's chain, whose tasks are shown to the gates of a program's.

What the teacher answered is kept in the work folder until the set is entered, so that a run that
was killed, or whose budget is spent, asks only for what is missing.
"""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from tutti.storage import Catalog, content_hash
from tutti.tasks.sandbox import level_for_models
from tutti.tasks.synthesis.domains import Toolkit
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.batch_rows import BatchRecorder
from tutti.tasks.synthesis.making.domain_parts import DomainParts, write_domain_part
from tutti.tasks.synthesis.making.instance import judge
from tutti.tasks.synthesis.making.request import PIPELINE_VERSION, SetUnfinished
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.teacher import Chain, TeacherRequest, TeacherTasks, make_tasks
from tutti.tasks.task_sets import SetInMaking

BUDGET_FIELDS = frozenset({"usd", "calls", "concurrency"})
"""They decide what a run may spend, and not what is made."""


class TeacherSetRequest(TeacherRequest):
    """A set by a teacher: what it is asked for, and what that may cost."""

    teacher: str = Field(description="a model of the registry")
    usd: float | None = Field(None, gt=0, description="most that one run may cost, USD")
    calls: int | None = Field(None, ge=1, description="most calls of one run")
    concurrency: int = Field(8, ge=1, le=256, description="calls at once")

    @property
    def as_asked(self) -> dict[str, Any]:
        """All that decides what is made."""
        return self.model_dump(exclude=set(BUDGET_FIELDS))

    @property
    def request_hash(self) -> str:
        """Of `as_asked`, and of what judges it."""
        return content_hash([PIPELINE_VERSION, list(GATES), self.as_asked])

    @property
    def chain(self) -> TeacherRequest:
        """What the teacher's chain is asked for."""
        return TeacherRequest(**{name: getattr(self, name) for name in TeacherRequest.model_fields})


class TeacherDomainSource(DomainParts):
    """The tasks of a teacher's chain.

    Raises from its parts TeacherFailed, BudgetSpent (what was paid for is kept), SetUnfinished,
    ToolkitFailed, SandboxUnavailable.
    """

    is_paid = True

    def __init__(
        self,
        request: TeacherSetRequest,
        teachers: TeacherPool,
        catalog: Catalog,
        benchmarks: Sequence[str] = (),
    ) -> None:
        """`benchmarks`: questions that no task may repeat."""
        self.request, self.teachers, self.benchmarks = request, teachers, benchmarks
        self.request_hash = self.work_name = request.request_hash
        (endpoint,), (prices,) = teachers.endpoints, teachers.prices
        program = f"{endpoint.program}-batch"
        self._recorder = BatchRecorder(catalog, request.teacher, program, prices)
        self._rejects: Sequence[Any] = ()

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """One: the chain's domain."""
        level_for_models()  # the teacher's code will run here; refused before a call is paid for
        chain = await self._asked(work)
        self.name, self._rejects = chain.domain.name, chain.rejects
        if chain.unfinished:
            row, reason = next(iter(chain.unfinished.items()))
            raise SetUnfinished(
                f"{len(chain.unfinished)} rows are not finished, as {row}: {reason}; what was paid "
                f"for is kept, and the same command goes on ({self.spent})"
            )
        async with Toolkit(chain.domain) as toolkit:
            context = GateContext(chain.domain, toolkit, None, self.benchmarks)
            judged = await judge(chain.tasks, context)
        yield write_domain_part(work / "instance-0000", chain.domain, judged)

    async def _asked(self, work: Path) -> TeacherTasks:
        async with open_teachers(self.teachers, work / "teacher") as ((teacher,), meter):
            teacher.on_batch = self._recorder.record
            chain = await make_tasks(Chain(self.request.chain, teacher))
            self.spent = meter.text
        return chain

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """What was asked for, and what the chain gave up."""
        asked: dict[str, Any] = {"name": self.name, "asked": self.request.as_asked}
        asked |= {"compared_with": len(self.benchmarks)}
        return asked | {"chain_rejects": [list(each) for each in self._rejects]}

    def too_few(self, made: SetInMaking) -> str:
        """Which gates dropped them, and what the chain gave up."""
        return f"{super().too_few(made)}; rejects of the chain: {self._rejects}"
