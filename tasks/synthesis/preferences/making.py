"""A source of tasks with preferences, from a set of domain tasks: the request and the source.

The same request gives the same bytes. A teacher's answers stay in the work folder until the set is
entered.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tutti.storage import Catalog, content_hash
from tutti.tasks.agents.orchestrator import AgentFile, read_agent
from tutti.tasks.synthesis.domains import (
    PREFERENCE,
    Domain,
    DomainTask,
    Toolkit,
    changed_task,
    read_domain_folder,
)
from tutti.tasks.synthesis.domains.offer import Preference, TaskOffer
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.domain_parts import DomainParts, stored_folders, write_domain_part
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.preferences.gates import (
    PREFERENCE_GATES,
    fit_reason,
    preferable,
    weighable,
)
from tutti.tasks.synthesis.preferences.offering import FILE as VENDORS
from tutti.tasks.synthesis.preferences.offering import DrawnOffer, draw_offer
from tutti.tasks.synthesis.preferences.profile import read_profile
from tutti.tasks.synthesis.preferences.proposing import (
    PROMPTS,
    SECOND_MODEL,
    Reject,
    ask_preferences,
    prompt_lineage,
)
from tutti.tasks.synthesis.preferences.weights import FILE as WORDINGS
from tutti.tasks.synthesis.preferences.weights import (
    draw_weights,
    read_wordings,
    render,
    weights_split,
)
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.teacher import BudgetedRequest
from tutti.tasks.task_sets import (
    PASSED,
    Judged,
    NothingMade,
    SetInMaking,
    Task,
    run_gates,
    write_part,
)

VERSION = "1"


class PreferenceRequest(BudgetedRequest):
    """The parameters of a set with preferences."""

    source: Literal["preferences"] = Field(
        "preferences", description="preferences for stored tasks"
    )
    task_set: str = Field(description="the set of domain tasks that gets preferences, by its id")
    agent: str = Field(
        "", description="an agent file whose experts are drawn too: a name, or a .yaml file"
    )
    measured: Path | None = Field(
        None, description="a profile of `tutti derive --profile`: its texts go with the tools"
    )
    teacher: str = Field("", description="a model that proposes pairs; default: by program")
    checker: str = Field("", description="a second model, which checks the teacher's pairs")
    pairs: int = Field(40, ge=1, le=10_000, description="pairs asked of the teacher")

    @model_validator(mode="after")
    def _two_models(self) -> Self:
        if bool(self.teacher) != bool(self.checker):
            raise ValueError("teacher, checker: give both; a second model checks the first one's")
        if self.teacher and self.teacher == self.checker:
            raise ValueError(f"checker: {self.checker} is the teacher; a second model must check")
        return self

    @property
    def agent_file(self) -> AgentFile | None:
        """Return the agent's file. Raises AgentFileError."""
        return read_agent(self.agent) if self.agent else None

    @property
    def models_asked(self) -> tuple[str, ...]:
        return (self.teacher, self.checker) if self.teacher else ()

    @property
    def request_hash(self) -> str:
        """Hash of `as_asked` and of the files that it uses."""
        agent = self.agent_file
        files = [WORDINGS, VENDORS, *sorted(PROMPTS.glob("*.md"))]
        files += [] if self.measured is None else [self.measured]
        contents = [content_hash(file.read_bytes()) for file in files]
        return content_hash([VERSION, self.as_asked, contents, agent and agent.agent_id])


MOST_DRAWS = 500
"""Of a vector, until one is of the task's split, which one in five is at least."""
BATCH = 250


@dataclass(frozen=True)
class _Making:
    seed: int
    agent: AgentFile | None
    pairs: Sequence[Preference] | None
    measured: Mapping[str, str]

    def candidate(self, domain: Domain, task: DomainTask) -> DomainTask:
        stream = f"{self.seed}/{task.task_id}"
        if self.pairs is None:
            drawn = draw_offer(domain, task, stream, self.agent)
            return self._with(task, drawn, _drawn_preference(domain, task, drawn, stream))
        fitting = [
            each
            for each in self.pairs
            if weights_split(each.weights) == task.split and not fit_reason(domain, task, each)
        ]
        if not fitting:
            return task
        pair = Random(f"{stream}/pair").choice(fitting)
        tools = weighable([name for name in pair.weights if name in domain.tool_named])
        return self._with(task, draw_offer(domain, task, stream, self.agent, tools), pair)

    def _with(self, task: DomainTask, drawn: DrawnOffer, preference: Preference) -> DomainTask:
        offer = TaskOffer(
            preference=preference,
            call_usd=drawn.call_usd,
            experts=drawn.experts,
            vendors=drawn.vendors,
            measured={name: self.measured[name] for name in drawn.tools if name in self.measured},
        )
        weights = json.dumps(preference.weights, sort_keys=True)
        found = {**task.attributes, "wording": preference.wording, PREFERENCE: weights}
        return changed_task(task, offer=offer, tools=drawn.tools, attributes=found)


def _drawn_preference(
    domain: Domain, task: DomainTask, drawn: DrawnOffer, stream: str
) -> Preference:
    """Return an instruction and weights of the task's split."""
    rng = Random(f"{stream}/preference")
    experts = weighable(list(drawn.experts))
    preferred = [*preferable(domain, task, drawn.tools), *experts]
    golden = {each.name for each in task.world.actions}
    avoidable = [*(name for name in weighable(drawn.tools) if name not in golden), *experts]
    for _ in range(MOST_DRAWS):
        weights = draw_weights(rng, preferred, avoidable)
        if weights_split(weights) == task.split:
            break
    else:
        raise NothingMade(f"{task.task_id}: no vector of {MOST_DRAWS} is in split {task.split}")
    known = read_wordings()
    name = rng.choice([each for each, wording in known.items() if wording.split == task.split])
    text = render(known[name], weights, rng)
    return Preference(instruction=text, weights=weights, wording=name)


class PreferenceSource(DomainParts):
    """The tasks of a set with preferences, drawn by a program or proposed by a teacher. `parts`
    raises NothingMade if no weights are of a task's split, ToolkitFailed, TeacherFailed,
    BudgetSpent (paid answers stay stored)."""

    gates = (SECOND_MODEL, *PREFERENCE_GATES)

    def __init__(
        self, request: PreferenceRequest, catalog: Catalog, teachers: TeacherPool | None = None
    ) -> None:
        """`teachers`: the proposer and the checker. Raises UsageError for a set without a
        domain."""
        self.request, self.teachers = request, teachers
        self.is_paid = teachers is not None
        self.request_hash = self.work_name = request.request_hash
        self.parents = [request.task_set]
        self._folders = stored_folders(catalog, request.task_set)
        self._domain, _ = read_domain_folder(self._folders[0])
        self.name = self._domain.name

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield one database at a time, then the pairs that the second model rejected."""
        measured, proposed = self.request.measured, None
        if self.teachers is not None:
            async with open_teachers(self.teachers, work / "teacher") as ((one, other), meter):
                proposed = await ask_preferences(one, other, self._domain, self.request.pairs)
                self.spent = meter.text
        making = _Making(
            self.request.seed,
            self.request.agent_file,
            None if proposed is None else proposed[0],
            {} if measured is None else read_profile(measured).tool_texts,
        )
        for number, folder in enumerate(self._folders):
            yield await _part(making, folder, work / f"preferences-{number:04}")
        if proposed is not None and made.accepted:
            refused = [_refused(each) for each in proposed[1]]
            yield write_part(work / "refused", refused)

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """Write the set as every domain's set; rejected pairs have no files."""
        return super().write(replace(made, parts=made.parts[: len(self._folders)]), folder)

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        asked = {"name": self.name, "asked": self.request.as_asked}
        return asked | ({"prompts": prompt_lineage()} if self.teachers is not None else {})

    def too_few(self, made: SetInMaking) -> str:
        return f"{self.request.task_set}: no task passed: {made.drops()}"


async def _part(making: _Making, folder: Path, out: Path) -> Path:
    domain, tasks = read_domain_folder(folder)
    judged = [Judged(making.candidate(domain, each)) for each in tasks]
    for each in judged if making.pairs is not None else ():
        each.note(SECOND_MODEL, PASSED)  # before a pair was dealt
    program = PROGRAMS.get(str(domain.lineage.get("generator")))
    async with Toolkit(domain) as toolkit:
        context = GateContext(domain, toolkit, None if program is None else program.solve)
        for start in range(0, len(judged), BATCH):
            await run_gates(judged[start : start + BATCH], PREFERENCE_GATES.values(), context)
            context.replays.clear()
    return write_domain_part(out, domain, judged)


def _refused(reject: Reject) -> Judged[Task]:
    gate, shown, reason = reject
    try:
        split = weights_split(dict(json.loads(shown)["weights"]))
    except (ValueError, TypeError, KeyError):
        split = ""  # a pair that cannot be read has none
    task = Task(
        key=gate,
        inputs={"question": shown},
        target={"answer": ""},
        family="preferences",
        template="pair",
        split=split,
    )
    return Judged(task, [gate], [None], reason)
