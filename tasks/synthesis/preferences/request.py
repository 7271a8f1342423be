"""What a set with preferences is asked for by."""

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.storage import content_hash
from tutti.tasks.agents.orchestrator import AgentFile, read_agent
from tutti.tasks.synthesis.preferences.offering import FILE as VENDORS
from tutti.tasks.synthesis.preferences.proposing import PROMPTS
from tutti.tasks.synthesis.preferences.wordings import FILE as WORDINGS

VERSION = "1"
BUDGET_FIELDS = frozenset({"usd", "calls", "concurrency"})


class PreferenceRequest(BaseModel):
    """The parameters of a set with preferences."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task_set: str = Field(description="the set of domain tasks that gets preferences, by its id")
    seed: int = Field(0, description="decides preferences, tools, prices")
    agent: str = Field(
        "", description="an agent file whose experts are drawn too: a name, or a .yaml file"
    )
    measured: Path | None = Field(
        None, description="a profile of `tutti derive --profile`: its texts go with the tools"
    )
    teacher: str = Field("", description="a model that proposes pairs; default: by program")
    checker: str = Field("", description="a second model, which checks the teacher's pairs")
    pairs: int = Field(40, ge=1, le=10_000, description="pairs asked of the teacher")
    usd: float | None = Field(None, gt=0, description="most that one run may cost, USD")
    calls: int | None = Field(None, ge=1, description="most calls of one run")
    concurrency: int = Field(8, ge=1, le=256, description="calls at once")

    @model_validator(mode="after")
    def _two_models(self) -> Self:
        if bool(self.teacher) != bool(self.checker):
            raise ValueError("teacher, checker: give both; a second model checks the first one's")
        if self.teacher and self.teacher == self.checker:
            raise ValueError(f"checker: {self.checker} is the teacher; a second model must check")
        return self

    @property
    def agent_file(self) -> AgentFile | None:
        """The agent's file. Raises AgentFileError."""
        return read_agent(self.agent) if self.agent else None

    @property
    def as_asked(self) -> dict[str, Any]:
        """All that decides what is made, apart from files' contents."""
        return self.model_dump(mode="json", exclude=set(BUDGET_FIELDS))

    @property
    def request_hash(self) -> str:
        """Of `as_asked` and of the files that it is made from."""
        agent = self.agent_file
        files = [WORDINGS, VENDORS, *sorted(PROMPTS.glob("*.md"))]
        files += [] if self.measured is None else [self.measured]
        contents = [content_hash(file.read_bytes()) for file in files]
        return content_hash([VERSION, self.as_asked, contents, agent and agent.agent_id])
