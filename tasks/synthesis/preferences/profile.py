"""Profiles: measured runs of the store by model, expert and tool; their texts and files.

An attempt counts for every expert and tool that it used, so a share describes the attempts with it,
not its effect. A teacher's text with numbers that are in no measurement is sent back once; after
that the rule's text stays.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tutti.errors import UsageError
from tutti.storage import Home, content_hash, query
from tutti.tasks.agents.orchestrator import read_agent
from tutti.tasks.platform import read_document
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.synthesis.preferences.proposing import PROMPTS
from tutti.tasks.synthesis.teacher import (
    BudgetedRequest,
    Question,
    Teacher,
    TeacherFailed,
    read_prompts,
)

PROFILE, AGENT = "profile.yaml", "agent.yaml"
SubjectKind = Literal["model", "expert", "tool"]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rate(_Frozen):
    """The pass rate of attempts at tasks of one kind."""

    kind: str
    tasks: int
    attempts: int
    right: int
    share: float = Field(ge=0, le=1, description="mean over tasks")
    low: float | None = Field(None, description="lower end of the 95 % interval; null: one task")
    high: float | None = None


class Subject(_Frozen):
    """Measurements of a model, an expert or a tool."""

    kind: SubjectKind
    name: str
    all: Rate
    by_kind: tuple[Rate, ...] = ()
    cost_usd: float | None = Field(None, description="mean of a call, of a model's attempts")
    latency_s: float | None = None
    text: str = ""


class Profile(_Frozen):
    """The content of `profile.yaml`."""

    task_set: str = ""
    subjects: tuple[Subject, ...] = ()

    @property
    def tool_texts(self) -> Mapping[str, str]:
        """The texts of tools by name."""
        return {each.name: each.text for each in self.subjects if each.kind == "tool"}

    def of_model(self, name: str) -> Subject | None:
        """Return the measurements of a model as an expert, or else as an agent."""
        named = {each.kind: each for each in self.subjects if each.name == name}
        return named.get("expert") or named.get("model")


def read_profile(file: Path) -> Profile:
    """Read a profile that may have been edited. Raises UsageError with file, line and field."""
    try:
        return read_document(file, UsageError).check(Profile)
    except FileNotFoundError:
        raise UsageError(
            f"{file}: no such file; `tutti derive --profile FOLDER` writes one"
        ) from None


def write_profile(profile: Profile, folder: Path, agent: str = "") -> list[Path]:
    """Write `profile.yaml`, and with the name or path of an agent file `agent.yaml`, into a folder;
    return the files. Raises AgentFileError, UsageError if no expert of the agent was measured."""
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
    """Return an agent file's fields for an expert; none for one that was not measured."""
    if found is None:
        return {}
    if found.kind == "expert" and found.latency_s:
        return {"skills": found.text, "latency_s": float(f"{found.latency_s:.3g}")}
    return {"skills": found.text}


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


SHOWN_KINDS = 4
"""Kinds of task in a text: the best and the worst of them."""
ATTEMPTS = """
with tried as (
    select a.attempt_id, a.model, a.correct, a.cost_usd, a.working_s, a.task_id,
        coalesce(any_value(t.slots ->> 'skill'), any_value(t.slots ->> 'template'),
            any_value(t.template), any_value(t.family)) as kind
    from counted a join tasks t on t.task_id = a.task_id
    group by a.attempt_id, a.model, a.correct, a.cost_usd, a.working_s, a.task_id
), measured as (
    select * from tried where $task_set is null or task_id in
        (select task_id from tasks where task_set_id = $task_set)
)
"""
AGENTS = """
select 'model' as subject, model as name, attempt_id, correct, task_id, kind,
    cost_usd, working_s as latency_s from measured
"""
EXPERTS = """
select 'expert' as subject, c.model as name, attempt_id, any_value(m.correct) as correct,
    any_value(m.task_id) as task_id, any_value(m.kind) as kind,
    avg(c.cost_usd) as cost_usd, avg(c.latency_s) as latency_s
from calls c join measured m using (attempt_id) where c.role = 'expert' group by all
"""
TOOLS = """
select 'tool' as subject, r.name, attempt_id, any_value(m.correct) as correct,
    any_value(m.task_id) as task_id, any_value(m.kind) as kind,
    avg(r.cost_usd) as cost_usd, avg(epoch(r.ended_at) - epoch(r.started_at)) as latency_s
from tool_runs r join measured m using (attempt_id) group by all
"""


def measure_profile(home: Home, task_set: str | None = None) -> Profile:
    """Return the profile of everything measured, or of attempts at the tasks of a set."""
    subjects: list[Subject] = []
    for statement in (AGENTS, EXPERTS, TOOLS):
        rows = query(ATTEMPTS + statement, home, {"task_set": task_set})
        named: dict[tuple[SubjectKind, str], list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            named[row["subject"], row["name"]].append(row)
        subjects += [_subject(*key, named[key]) for key in sorted(named)]
    return Profile(task_set=task_set or "", subjects=tuple(subjects))


def _subject(kind: SubjectKind, name: str, rows: Sequence[Mapping[str, Any]]) -> Subject:
    by_kind: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_kind[str(row["kind"])].append(row)
    found = Subject(
        kind=kind,
        name=name,
        all=rate_of("all", rows),
        by_kind=tuple(rate_of(each, by_kind[each]) for each in sorted(by_kind)),
        cost_usd=_mean(row["cost_usd"] for row in rows),
        latency_s=_mean(row["latency_s"] for row in rows),
    )
    return found.model_copy(update={"text": rule_text(found)})


def rate_of(name: str, rows: Iterable[Mapping[str, Any]]) -> Rate:
    """Return the share of right attempts, with an interval over tasks: attempts at one task count
    as one task. Rows have ``task_id`` and ``correct``."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[row["task_id"]].append(float(bool(row["correct"])))
    found = mean_interval(list(groups.values()))
    right = int(sum(map(sum, groups.values())))
    n = sum(map(len, groups.values()))
    return Rate(
        kind=name, tasks=len(groups), attempts=n, right=right,
        share=found.value, low=found.low, high=found.high,
    )  # fmt: skip


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean; None if a value is unknown, which a mean of the others would hide."""
    known = list(values)
    if any(value is None for value in known):
        return None
    return sum(value or 0.0 for value in known) / len(known)


def rule_text(subject: Subject) -> str:
    """Return the measurements as a description by rule."""
    told = {"model": "As agent", "expert": "When asked", "tool": "Attempts that used it"}
    lines = [f"{told[subject.kind]}: {_rate_text(subject.all)}."]
    ranked = sorted(subject.by_kind, key=lambda rate: -rate.share)
    if len(ranked) > 1:
        ends = ranked if len(ranked) <= SHOWN_KINDS else [*ranked[:2], *ranked[-2:]]
        lines.append("; ".join(f"{each.kind}: {_rate_text(each)}" for each in ends) + ".")
    spent = []
    if subject.cost_usd is not None:
        spent.append(f"{subject.cost_usd:.2g} USD")
    if subject.latency_s is not None:
        spent.append(f"{subject.latency_s:.2g} s")
    if spent:
        of = "An attempt takes" if subject.kind == "model" else "A call takes"
        lines.append(f"{of} {' and '.join(spent)} on average.")
    return " ".join(lines)


def _rate_text(rate: Rate) -> str:
    said = f"right in {rate.right} of {rate.attempts}"
    if rate.low is None or rate.high is None:
        return f"{said}, too few to tell"
    return f"{said} ({rate.low:.0%} to {rate.high:.0%})"


MOST_CHARS = 500
NUMBER = re.compile(r"\d+(?:[.,]\d+)?")


class ProfileRequest(BudgetedRequest):
    """The parameters of a profile."""

    folder: Path
    """Where its files are written."""
    task_set: str = ""
    """Whose attempts are read; empty: all of the store."""
    agent: str = ""
    """The agent file whose experts are described."""
    teacher: str = ""
    """Who writes the texts; empty: the rule."""


class Description(BaseModel):
    """The text that the teacher writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str


def description_reason(text: str, measured: str) -> str:
    """Return why a text is wrong, or an empty string."""
    if not text.strip() or len(text) > MOST_CHARS:
        return f"text: {len(text)} characters; must be 1 to {MOST_CHARS}"
    known = set(NUMBER.findall(measured))
    invented = next((each for each in NUMBER.findall(text) if each not in known), None)
    return "" if invented is None else f"text: {invented} is in no measurement"


async def describe_profile(profile: Profile, teacher: Teacher) -> tuple[Profile, dict[str, str]]:
    """Return the profile with the teacher's texts, and by subject why the rule's text stays. Raises
    BudgetSpent."""
    prompt = read_prompts(PROMPTS)["describe"]
    questions = []
    for each in profile.subjects:
        measured = _shown(each)
        text = prompt.render(kind=f"{each.kind}s", name=each.name, measured=measured)
        name = f"describe-{each.kind}-{content_hash(each.name)[:8]}"
        check = partial(_check, measured)
        questions.append(Question(name, text, Description, check, max_tokens=512))
    subjects, kept = [], {}
    for each, outcome in zip(profile.subjects, await teacher.ask_all(questions), strict=True):
        if isinstance(outcome, TeacherFailed):
            kept[f"{each.kind} {each.name}"] = str(outcome)
            subjects.append(each)
        else:
            subjects.append(each.model_copy(update={"text": outcome.text}))
    return profile.model_copy(update={"subjects": tuple(subjects)}), kept


def _check(measured: str, answer: Description) -> str:
    return description_reason(answer.text, measured)


def _shown(subject: Subject) -> str:
    """Return the rule's text, which has the figures, and each kind of task."""
    rows = [
        f"{rate.kind}: {rate.right} of {rate.attempts} attempts at {rate.tasks} tasks right"
        + (f", {rate.low:.0%} to {rate.high:.0%}" if None not in (rate.low, rate.high) else "")
        for rate in (subject.all, *subject.by_kind)
    ]
    return "\n".join([subject.text, *rows])
