"""Agent files: an orchestrator's experts, what it may know of them, and the limits of prompts.

A file that begins with ``extends: NAME`` (a shipped file, or a path relative to its folder) states
only the differences, mapping by mapping; ``null`` removes a tool, or an expert of one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from tutti.errors import ExitCode, TuttiError
from tutti.storage import artifact_id
from tutti.tasks.agents.tools.retrieve import MAX_QUERY_CHARS
from tutti.tasks.platform import DEPLOYMENTS, Document, read_document
from tutti.tasks.sandbox import SandboxLimits
from tutti.tasks.serving.metering import Usd

AGENTS = DEPLOYMENTS / "agents"
MOST_PARENTS = 8  # a longer chain of files is considered a cycle
CALL_EXPERT = "call_expert"


class AgentFileError(TuttiError, ValueError):
    """An agent file is invalid; the message names file, field and value."""

    exit_code = ExitCode.BAD_USAGE


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Caps(_Strict):
    """Token limits of the evidence in a prompt; null is no limit. Beyond them whole pieces are left
    out, oldest and least relevant first; tokens are estimated from the engine's reported counts."""

    document_chars: int | None = Field(None, ge=32, description="longest document")
    answers_tokens: int | None = Field(None, ge=1, description="answers that were not taken")
    work_tokens: int | None = Field(None, ge=1, description="programs, their output, and answers")
    total_tokens: int | None = Field(None, ge=1, description="all that, problem and documents")


class ShownPrices(_Strict):
    """USD per million tokens, as shown to the orchestrator; the gateway's prices are charged."""

    prompt: Usd
    completion: Usd

    @model_validator(mode="after")
    def _ordered(self) -> "ShownPrices":
        # A price per token, or swapped columns, would reverse every decision.
        if self.prompt > self.completion:
            raise ValueError("a prompt token must cost at most as much as a completion token")
        return self

    def cost_usd(self, prompt_tokens: float, completion_tokens: float) -> float:
        """The cost of one call."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


def _several(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


class Expert(_Strict):
    """A model behind an alias."""

    model: str = Field(description="a model of models.yaml")
    prices: ShownPrices
    latency_s: float = Field(gt=0, description="average of a call, as shown to the orchestrator")
    skills: Annotated[tuple[str, ...], BeforeValidator(_several)] = Field(
        min_length=1, description="what it is good at, a text; of several one is drawn"
    )
    caps: Caps = Field(Caps(), description="of its prompts; in dialogues it reads all")
    temperature: float = Field(0.0, ge=0.0)
    max_tokens: int = Field(ge=1, description="most tokens of its reply")
    alias: str = Field("", description="its name in the file, put in when it is read")


class Tool(_Strict):
    """A tool and the experts that can carry it out."""

    description: str = Field(min_length=1)
    experts: dict[str, Expert] = Field(min_length=1)

    @field_validator("experts", mode="before")
    @classmethod
    def _named(cls, experts: Any) -> Any:
        if not isinstance(experts, dict):
            return experts
        given = {alias: expert for alias, expert in experts.items() if expert is not None}
        return {a: e | {"alias": a} if isinstance(e, dict) else e for a, e in given.items()}


class SearchTool(Tool):
    """`search`: the expert writes queries for the retrieval service."""

    results: int = Field(ge=1, le=1000, description="documents asked for a query")
    queries: int = Field(1, ge=1, le=16, description="most queries of one search")
    query_chars: int = Field(390, ge=16, le=MAX_QUERY_CHARS, description="longest query")
    least_chars: int = Field(5, ge=1, description="a shorter query is none")


class ActTool(Tool):
    """`act`: in a world with strategies, the measured model names one each turn, and the expert
    makes a move that the strategy allows."""

    structured_moves: bool = Field(
        False, description="the actor's engine decodes legal moves only (vLLM)"
    )
    structured_strategies: bool = Field(
        False,
        description="the strategist's engine decodes known strategies only (vLLM); not for "
        "training: the recorded log probabilities are then among these alone",
    )

    @model_validator(mode="after")
    def _one_actor(self) -> "ActTool":
        if len(self.experts) > 1:
            raise ValueError(f"has one expert, the actor; given: {', '.join(self.experts)}")
        return self

    @property
    def actor(self) -> Expert:
        """Its only expert."""
        return next(iter(self.experts.values()))


class Tools(_Strict):
    """The orchestrator's tools."""

    search: SearchTool | None = None
    enhance_reasoning: Tool | None = None
    answer: Tool | None = None
    call_expert: Tool | None = None
    """In dialogues: an expert writes the turn."""
    act: ActTool | None = None
    """In worlds with strategies: an expert makes the moves."""

    def given(self) -> Iterator[tuple[str, Tool]]:
        """The tools that are set, with their names."""
        for name in type(self).model_fields:
            tool = getattr(self, name)
            if tool is not None:
                yield name, tool

    @model_validator(mode="after")
    def _usable(self) -> "Tools":
        if self.answer is None and self.call_expert is None and self.act is None:
            raise ValueError(
                "needs `answer` (for questions), `call_expert` (for dialogues) or `act` (for "
                "worlds with strategies)"
            )
        if self.call_expert is not None and self.act is not None:
            raise ValueError("`call_expert` and `act` both make the turns; leave one out")
        aliases = [alias for _, tool in self.given() for alias in tool.experts]
        if twice := sorted({alias for alias in aliases if aliases.count(alias) > 1}):
            raise ValueError(f"an alias names one expert of one tool; twice: {', '.join(twice)}")
        return self


Range = tuple[float, float]


class Draw(_Strict):
    """What is randomised for each sample, by seed and task."""

    models: bool = Field(False, description="which expert of its tool is behind which alias")
    least: int | None = Field(None, ge=1, description="so many experts a tool, or more, are there")
    prices: Range = Field((1.0, 1.0), description="a factor for each model, from and to")
    latency: Range = Field((1.0, 1.0), description="a factor for each model, from and to")

    @model_validator(mode="after")
    def _ranges(self) -> "Draw":
        for name in ("prices", "latency"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"{name} must be two factors above 0, the lower first")
        return self


class Escalate(_Strict):
    """Verification of answers by another expert; a refused problem goes to the next more expensive
    expert."""

    budget_usd: float = Field(gt=0, description="most that verifying and asking again may add")


class AgentFile(_Strict):
    """A parsed agent file."""

    system: str = Field(min_length=1, description="the orchestrator's system prompt")
    calls_a_turn: int | None = Field(1, ge=1, description="null carries out all at once")
    must_call: bool = Field(False, description="of questions: the engine decodes valid calls only")
    ledger: bool = Field(True, description="it sees what it has tried, spent and failed at")
    prompt: Caps = Caps()
    tools: Tools
    python_s: float = Field(60.0, gt=0, description="longest that an expert's program may take")
    output_chars: int = Field(4000, ge=64, description="longest output of a program")
    escalate: Escalate | None = None
    draw: Draw | None = None

    @property
    def models(self) -> frozenset[str]:
        """The models of its experts."""
        return frozenset(
            expert.model for _, tool in self.tools.given() for expert in tool.experts.values()
        )

    @property
    def agent_id(self) -> str:
        """Content hash: part of a cell's id."""
        content = self.model_dump(mode="json")
        if self.tools.act is None:
            del content["tools"]["act"]  # files from before it was a tool keep their ids
        return artifact_id("agent", content)

    @property
    def request(self) -> Mapping[str, Any]:
        """Additional fields of the orchestrator's requests."""
        return {"tool_choice": "required"} if self.must_call else {}

    @property
    def sandbox_limits(self) -> SandboxLimits:
        """Limits for programs that experts write."""
        return SandboxLimits(seconds=self.python_s, output_chars=self.output_chars)


def read_agent(name: str | Path) -> AgentFile:
    """Read the shipped agent `name`, or a YAML file by its path. Raises AgentFileError with file,
    field and value; for an unknown name it lists the known ones."""
    file = _place(str(name), Path())
    return _document(file, MOST_PARENTS).check(AgentFile)


def known_agents() -> list[str]:
    """The agents shipped with tutti."""
    return sorted(path.stem for path in AGENTS.glob("*.yaml"))


def _place(name: str, folder: Path) -> Path:
    return folder / name if name.endswith((".yaml", ".yml")) else AGENTS / f"{name}.yaml"


def _document(file: Path, parents: int) -> Document:
    """The file merged with those it extends. After the merge, an error cannot be attributed to a
    line."""
    try:
        document = read_document(file, AgentFileError)
    except FileNotFoundError:
        known = ", ".join(known_agents())
        raise AgentFileError(f"{file}: no such file; shipped agents: {known}") from None
    content = document.content
    if not isinstance(content, dict):
        raise AgentFileError(f"{file}: file: must be a mapping (given: {content!r:.80})")
    parent = content.pop("extends", None)
    if parent is None:
        return document
    if not isinstance(parent, str) or not parents:
        why = "must be a name or a path" if parents else "the files extend one another in a circle"
        raise AgentFileError(f"{file}: extends: {why} (given: {parent!r})")
    base = _document(_place(parent, file.parent), parents - 1)
    return Document(file, _over(base.content, content), {}, AgentFileError)


def _over(base: Any, given: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(given, dict):
        return given
    return {**base, **{name: _over(base.get(name), value) for name, value in given.items()}}
