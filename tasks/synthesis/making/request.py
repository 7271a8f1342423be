"""What a set of domain tasks is asked for by: domain, size, seed, knobs."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tutti.errors import ExitCode, TuttiError
from tutti.storage import content_hash
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.program import Program

PIPELINE_VERSION = "2"
MACHINE_FIELDS = frozenset({"workers"})
"""Fields that do not change what is made."""


class SetUnfinished(TuttiError, RuntimeError):
    """A teacher's budget or endpoint ended before its tasks; what was finished is kept."""

    exit_code = ExitCode.INCOMPLETE


class DomainRequest(BaseModel):
    """The parameters of a set of domain tasks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        """The program that makes it."""
        return PROGRAMS[self.domain]

    @property
    def every_knob(self) -> dict[str, int]:
        """The knobs with their defaults."""
        return {name: each.value for name, each in self.program.knobs.items()} | self.knobs

    @property
    def databases(self) -> int:
        """How many instances there are, if each gives as many tasks as are wanted of it."""
        return -(-self.size // self.instance_tasks)

    def wanted(self, number: int) -> int:
        """How many tasks an instance gives at most. It depends on nothing but the request, so that
        instances can be made at once; one beyond `databases` makes up for what others lacked."""
        left = self.size - number * self.instance_tasks
        return min(self.instance_tasks, left if left > 0 else self.size)

    @property
    def as_asked(self) -> dict[str, Any]:
        """All that decides what is made."""
        return self.model_dump(exclude=set(MACHINE_FIELDS)) | {"knobs": self.every_knob}

    @property
    def request_hash(self) -> str:
        """Of `as_asked`, and of what makes it."""
        return content_hash([PIPELINE_VERSION, self.program.version, list(GATES), self.as_asked])
