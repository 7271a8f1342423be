"""Gates decide which candidates become tasks: one runner for every kind of task.

In: candidates, gates in their order, and what the gates may use. Out: of each candidate the gates
that it was shown to, what each measured, and why the last one rejected it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar


class Candidate(Protocol):
    """What a gate judges."""

    @property
    def task_id(self) -> str:
        """Content hash."""
        ...


C = TypeVar("C", bound=Candidate)
Shown = TypeVar("Shown", bound=Candidate, contravariant=True)
Bench = TypeVar("Bench", contravariant=True)


@dataclass(frozen=True)
class Verdict:
    """A gate's decision on a candidate."""

    passed: bool
    reason: str = ""
    """Why not: for people, with the values that decided it."""
    measured: float | None = None
    """What was compared with the gate's threshold, where it has one."""


PASSED = Verdict(True)


def verdict(reason: str) -> Verdict:
    """The verdict for the first thing found wrong; an empty reason passes."""
    return Verdict(False, reason) if reason else PASSED


class RunnableGate(Protocol[Shown, Bench]):
    """What the runner asks of a gate."""

    name: str

    async def judge(self, tasks: Sequence[Shown], bench: Bench) -> Sequence[Verdict]:
        """A verdict on each candidate, in order."""
        ...


@dataclass
class Judged(Generic[C]):
    """A candidate and what the gates said."""

    task: C
    gates: list[str] = field(default_factory=list)
    measured: list[float | None] = field(default_factory=list)
    reason: str | None = None
    """Of the gate that rejected it; None: it passed all so far."""

    def note(self, gate: str, found: Verdict) -> None:
        """Add a gate's verdict."""
        self.gates.append(gate)
        self.measured.append(found.measured)
        if not found.passed:
            self.reason = found.reason

    def as_row(self) -> dict[str, Any]:
        """What the rows of `gate_verdicts` are made of."""
        return {
            "task_id": self.task.task_id,
            "accepted": self.reason is None,
            "gates": self.gates,
            "measured": self.measured,
            "reason": self.reason or "",
        }


async def run_gates(
    judged: Sequence[Judged[C]], gates: Iterable[RunnableGate[C, Any]], bench: object
) -> None:
    """Show candidates to every gate in order; one that rejects a candidate is its last. Raises what
    a gate raises."""
    for gate in gates:
        shown = [each for each in judged if each.reason is None]
        if not shown:
            break
        verdicts = await gate.judge([each.task for each in shown], bench)
        for each, found in zip(shown, verdicts, strict=True):
            each.note(gate.name, found)
