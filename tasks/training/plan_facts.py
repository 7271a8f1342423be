"""What `tutti train plan` says: facts, each under a part of the plan, and what is missing."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PlanFact:
    """One line of a plan."""

    part: str
    """Of the plan: base, memory, rollouts."""
    name: str
    value: Any
    """As JSON has it; None where it is not known."""
    text: str
    """As people read it."""


@dataclass(frozen=True)
class MissingThing:
    """What this machine lacks for the job."""

    what: str
    todo: str
    """What to do about it."""


@dataclass
class JobPlan:
    """What a job would do: each of its planners adds facts, and what is missing."""

    name: str
    kind: str
    """sft or policy."""
    facts: list[PlanFact] = field(default_factory=list)
    missing: list[MissingThing] = field(default_factory=list)

    def fact(self, part: str, name: str, value: Any, text: str | None = None) -> None:
        """Add a fact; without a text, people read its value."""
        self.facts.append(PlanFact(part, name, value, _shown(value) if text is None else text))

    def settings(self, part: str, settings: Iterable[tuple[str, Any]]) -> None:
        """Add a fact of each setting."""
        for name, value in settings:
            self.fact(part, name, value)

    def lacks(self, what: str, todo: str) -> None:
        """Add a missing thing, once."""
        if (thing := MissingThing(what, todo)) not in self.missing:
            self.missing.append(thing)

    @property
    def content(self) -> dict[str, Any]:
        """As `--json` prints it."""
        parts: dict[str, dict[str, Any]] = {}
        for fact in self.facts:
            parts.setdefault(fact.part, {})[fact.name] = fact.value
        missing = [{"what": each.what, "todo": each.todo} for each in self.missing]
        told = {"job": self.name, "kind": self.kind, "could_start": not missing}
        return {**told, **parts, "missing": missing}


def size_text(size_bytes: float) -> str:
    """Bytes as people read them, in powers of 1,000."""
    if size_bytes >= 1e9:
        return f"{size_bytes / 1e9:,.1f} GB"
    return f"{size_bytes / 1e6:,.1f} MB"


def span_text(least: int, most: int) -> str:
    """One number, or the range from the least to the most."""
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_shown(each) for each in value)
    return "none" if value is None else str(value)
