"""A plan: the facts of a job, and the things that this machine lacks for it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class PlanFact(NamedTuple):
    """One line of a plan: the part it belongs to, its name, the value in JSON, and the text."""

    part: str
    name: str
    value: Any
    text: str


class MissingThing(NamedTuple):
    """A thing that this machine lacks, and what to do about it."""

    what: str
    todo: str


@dataclass
class JobPlan:
    """The plan of a job."""

    name: str
    kind: str
    facts: list[PlanFact] = field(default_factory=list)
    missing: list[MissingThing] = field(default_factory=list)

    def fact(self, part: str, name: str, value: Any, text: str | None = None) -> None:
        """Add a fact; without a text, its value is shown."""
        self.facts.append(PlanFact(part, name, value, _shown(value) if text is None else text))

    def settings(self, part: str, settings: Iterable[tuple[str, Any]]) -> None:
        """Add a fact for each setting."""
        for name, value in settings:
            self.fact(part, name, value)

    def lacks(self, what: str, todo: str) -> None:
        """Add a missing thing, once."""
        if (thing := MissingThing(what, todo)) not in self.missing:
            self.missing.append(thing)

    @property
    def content(self) -> dict[str, Any]:
        """Return the plan as `--json` prints it."""
        parts: dict[str, Any] = {
            "job": self.name,
            "kind": self.kind,
            "could_start": not self.missing,
        }
        for fact in self.facts:
            parts.setdefault(fact.part, {})[fact.name] = fact.value
        return parts | {"missing": [each._asdict() for each in self.missing]}


def size_text(size_bytes: float) -> str:
    """Format a number of bytes for people, in powers of 1,000."""
    unit, divisor = ("GB", 1e9) if size_bytes >= 1e9 else ("MB", 1e6)
    return f"{size_bytes / divisor:,.1f} {unit}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
