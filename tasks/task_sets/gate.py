"""Gates decide which candidates become tasks; one runner serves every kind of task.

In: candidates, gates in their order, and their context. Out: for each candidate the gates that
judged it, what each measured, and why the last one rejected it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tutti.tasks.task_sets.task import Task

C = TypeVar("C", bound=Task)
Shown = TypeVar("Shown", bound=Task, contravariant=True)
Context = TypeVar("Context", contravariant=True)


@dataclass(frozen=True)
class Verdict:
    """A gate's decision on a candidate."""

    passed: bool
    reason: str = ""
    """Why not, with the values that decided it."""
    measured: float | None = None
    """The value that is compared with the gate's threshold, where it has one."""


PASSED = Verdict(True)


def verdict(reason: str) -> Verdict:
    """Return a rejection with a reason; an empty reason passes."""
    return Verdict(False, reason) if reason else PASSED


class Gate(Protocol[Shown, Context]):
    """A rule for candidates. `Context` is the type of its resources."""

    name: str

    async def judge(self, tasks: Sequence[Shown], context: Context, /) -> Sequence[Verdict]:
        """Return a verdict on each candidate, in order."""
        ...


@dataclass
class Judged(Generic[C]):
    """A candidate and the gates' verdicts on it."""

    task: C
    gates: list[str] = field(default_factory=list)
    measured: list[float | None] = field(default_factory=list)
    reason: str | None = None
    """Reason of the gate that rejected it; None: it has passed all so far."""

    def note(self, gate: str, found: Verdict) -> None:
        """Add a gate's verdict."""
        self.gates.append(gate)
        self.measured.append(found.measured)
        if not found.passed:
            self.reason = found.reason

    def as_row(self) -> dict[str, Any]:
        """Return the row of a part's file, without the task itself."""
        return {
            "task_id": self.task.task_id,
            "accepted": self.reason is None,
            "gates": self.gates,
            "measured": self.measured,
            "reason": self.reason or "",
        }


async def run_gates(
    judged: Sequence[Judged[C]], gates: Iterable[Gate[C, Any]], context: object
) -> None:
    """Pass candidates through the gates in order; a rejected candidate goes no further. Raises the
    gates' errors."""
    for gate in gates:
        shown = [each for each in judged if each.reason is None]
        if not shown:
            break
        verdicts = await gate.judge([each.task for each in shown], context)
        for each, found in zip(shown, verdicts, strict=True):
            each.note(gate.name, found)
