"""The files of a profile, which one can edit: `profile.yaml` and an agent file.

`profile.yaml` has the figures and a text for each model, expert and tool; a set with preferences
takes the texts of tools. The agent file extends another one and replaces what it says of its
experts' skills and latency; a suite takes it as `roles.agent`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tutti.errors import UsageError
from tutti.tasks.agents.orchestrator import read_agent
from tutti.tasks.config import read_document

PROFILE, AGENT = "profile.yaml", "agent.yaml"
SubjectKind = Literal["model", "expert", "tool"]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rate(_Frozen):
    """Attempts at tasks of one kind."""

    kind: str
    tasks: int
    attempts: int
    right: int
    share: float = Field(ge=0, le=1, description="mean over tasks")
    low: float | None = Field(None, description="lower end of the 95 % interval; null: one task")
    high: float | None = None


class Subject(_Frozen):
    """What was measured of a model, an expert or a tool."""

    kind: SubjectKind
    name: str
    all: Rate
    by_kind: tuple[Rate, ...] = ()
    cost_usd: float | None = Field(None, description="mean of a call, of a model's attempts")
    latency_s: float | None = None
    text: str = ""


class Profile(_Frozen):
    """What `profile.yaml` has."""

    task_set: str = ""
    subjects: tuple[Subject, ...] = ()

    @property
    def tool_texts(self) -> Mapping[str, str]:
        """The texts of tools by name."""
        return {each.name: each.text for each in self.subjects if each.kind == "tool"}

    def of_model(self, name: str) -> Subject | None:
        """What was measured of a model as an expert, or else as an agent."""
        named = {each.kind: each for each in self.subjects if each.name == name}
        return named.get("expert") or named.get("model")


def read_profile(file: Path) -> Profile:
    """A profile that may have been edited. Raises UsageError with file, line and field."""
    try:
        return read_document(file, UsageError).check(Profile)
    except FileNotFoundError:
        raise UsageError(
            f"{file}: no such file; `tutti derive --profile FOLDER` writes one"
        ) from None


def write_profile(profile: Profile, folder: Path, agent: str = "") -> list[Path]:
    """Write `profile.yaml`, and with the name or path of an agent file `agent.yaml`, into a folder;
    returns the files. Raises AgentFileError, UsageError where no expert of the agent was measured.
    """
    texts = {PROFILE: _yaml(profile.model_dump(mode="json"))}
    if agent:
        texts[AGENT] = _yaml(_agent_content(profile, agent))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def _agent_content(profile: Profile, agent: str) -> dict[str, Any]:
    told = {
        name: {alias: _told(profile.of_model(e.model)) for alias, e in tool.experts.items()}
        for name, tool in read_agent(agent).tools.given()
    }
    tools = {
        name: {"experts": {alias: each for alias, each in experts.items() if each}}
        for name, experts in told.items()
        if any(experts.values())
    }
    if not tools:
        known = ", ".join(each.name for each in profile.subjects) or "nothing"
        raise UsageError(f"{agent}: none of its experts was measured; the store has {known}")
    extends = str(Path(agent).absolute()) if agent.endswith((".yaml", ".yml")) else agent
    return {"extends": extends, "tools": tools}


def _told(found: Subject | None) -> dict[str, Any]:
    """What an agent file says of an expert; nothing of one that was not measured."""
    if found is None:
        return {}
    if found.kind == "expert" and found.latency_s:
        return {"skills": found.text, "latency_s": float(f"{found.latency_s:.3g}")}
    return {"skills": found.text}


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
