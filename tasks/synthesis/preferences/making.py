"""A set whose tasks have preferences, made of a set of domain tasks.

In: a request, a catalog, and pairs where a teacher made them. Out: an artifact ``task_set:...``
whose tasks carry an instruction, its weights, tools of their own and prices; rows of `tasks` and
`gate_verdicts` for every candidate. The same request gives the same bytes.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tutti.errors import UsageError
from tutti.storage import Catalog, artifact_id, held, now, to_arrow
from tutti.tasks.agents.orchestrator import AgentFile
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    Toolkit,
    domain_folders,
    read_domain_folder,
)
from tutti.tasks.synthesis.domains.offer import Preference, TaskOffer
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.collected import Collected
from tutti.tasks.synthesis.making.instance import write_instance
from tutti.tasks.synthesis.making.make import work_folder
from tutti.tasks.synthesis.making.request import NothingMade
from tutti.tasks.synthesis.preferences.gates import (
    PREFERENCE_GATES,
    fit_reason,
    preferable,
    weighable,
)
from tutti.tasks.synthesis.preferences.offering import DrawnOffer, draw_offer
from tutti.tasks.synthesis.preferences.profile_file import read_profile
from tutti.tasks.synthesis.preferences.proposing import (
    SECOND_MODEL,
    ProposedPreferences,
    Reject,
    prompt_lineage,
)
from tutti.tasks.synthesis.preferences.request import PreferenceRequest
from tutti.tasks.synthesis.preferences.weights import draw_weights, weights_split
from tutti.tasks.synthesis.preferences.wordings import read_wordings, render
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.task_sets import PASSED, Judged, run_gates

POSITIONS = {name: place for place, name in enumerate((SECOND_MODEL, *PREFERENCE_GATES), 1)}
MOST_DRAWS = 500
"""Of a vector, until one is of the task's split, which one in five is at least."""
BATCH = 250


@dataclass(frozen=True)
class _Making:
    """What the candidates of a set are made with."""

    seed: int
    agent: AgentFile | None
    pairs: Sequence[Preference] | None
    measured: Mapping[str, str]

    def candidate(self, domain: Domain, task: DomainTask) -> DomainTask:
        """A task with its offer; without one where no pair fits."""
        stream = f"{self.seed}/{task.task_id}"
        if self.pairs is None:
            drawn = draw_offer(domain, task, stream, self.agent)
            return self._with(task, drawn, _drawn_preference(domain, task, drawn, stream))
        fitting = [each for each in self.pairs if _fits(each, domain, task)]
        if not fitting:
            return task
        pair = Random(f"{stream}/pair").choice(fitting)
        tools = weighable([name for name in pair.weights if name in domain.tool_named])
        return self._with(task, draw_offer(domain, task, stream, self.agent, tools), pair)

    def _with(self, task: DomainTask, drawn: DrawnOffer, preference: Preference) -> DomainTask:
        offer = TaskOffer(
            preference=preference,
            call_usd=dict(drawn.call_usd),
            experts=dict(drawn.experts),
            vendors=dict(drawn.vendors),
            measured={name: self.measured[name] for name in drawn.tools if name in self.measured},
        )
        return task.model_copy(update={"offer": offer, "tools": drawn.tools})


def _drawn_preference(
    domain: Domain, task: DomainTask, drawn: DrawnOffer, stream: str
) -> Preference:
    """An instruction and weights of the task's split."""
    rng = Random(f"{stream}/preference")
    experts = weighable(list(drawn.experts))
    preferred = [*preferable(domain, task, drawn.tools), *experts]
    golden = {each.name for each in task.actions}
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


def _fits(pair: Preference, domain: Domain, task: DomainTask) -> bool:
    return weights_split(pair.weights) == task.split and not fit_reason(domain, task, pair)


async def make_preference_set(
    request: PreferenceRequest, catalog: Catalog, proposed: ProposedPreferences | None = None
) -> str:
    """Make the set, or find an existing one; returns its id.

    `proposed`: a teacher's pairs, in place of the program's. Raises UsageError for a set that is no
    domain's, NothingMade where no task passes, ToolkitFailed, StoreError.
    """
    known = find_task_set(catalog, request.request_hash)
    if known is not None:
        return known
    folder = set_folder(catalog, request.task_set)
    pairs = None if proposed is None else proposed.kept
    measured = {} if request.measured is None else read_profile(request.measured).tool_texts
    making = _Making(request.seed, request.agent_file, pairs, measured)
    work = work_folder(catalog, request.request_hash)
    with held(catalog, f"synthesizing {request.request_hash}"):
        # What the teacher said is kept: it is paid for.
        shutil.rmtree(work / "set", ignore_errors=True)
        collected = Collected(1_000_000_000, work / "set", positions=POSITIONS)
        for number, each in enumerate(domain_folders(folder)):
            await _take(making, each, work / f"preferences-{number:04}", number, collected)
        if not collected.accepted:
            raise NothingMade(f"{request.task_set}: no task passed: {collected.drops()}")
        rejects = () if proposed is None else proposed.rejects
        _add_rejects(rejects, collected)
        named: dict[str, Any] = {"request": request.request_hash, "asked": request.as_asked}
        named |= {"name": read_domain_folder(domain_folders(folder)[0])[0].name}
        named |= {"prompts": prompt_lineage()} if proposed is not None else {}
        made = collected.enter(named, catalog, [request.task_set])
        shutil.rmtree(work)
    return made


def set_folder(catalog: Catalog, task_set: str) -> Path:
    """The folder of a set of domain tasks. Raises UsageError."""
    known = catalog.artifact(task_set)
    if known is None or known["path"] is None:
        raise UsageError(f"no task set {task_set!r} of a domain; `tutti synth` makes one")
    return Path(known["path"])


async def _take(
    making: _Making, folder: Path, out: Path, number: int, collected: Collected
) -> None:
    domain, tasks = read_domain_folder(folder)
    every = [making.candidate(domain, each) for each in tasks]
    program = PROGRAMS.get(str(domain.lineage.get("generator")))
    judged: list[Judged[DomainTask]] = []
    async with Toolkit(domain) as toolkit:
        context = GateContext(domain, toolkit, None if program is None else program.solve)
        for start in range(0, len(every), BATCH):
            judged += await _judge(every[start : start + BATCH], context, making.pairs is not None)
    shutil.rmtree(out, ignore_errors=True)
    write_instance(out, domain, [each.task for each in judged if each.reason is None], judged)
    collected.take(out, number)


async def _judge(
    tasks: Sequence[DomainTask], context: GateContext, is_by_teacher: bool
) -> list[Judged[DomainTask]]:
    """Show candidates to the gates; a teacher's pairs have passed the second model before."""
    judged = [Judged(task) for task in tasks]
    for each in judged if is_by_teacher else ():
        each.note(SECOND_MODEL, PASSED)
    await run_gates(judged, PREFERENCE_GATES.values(), context)
    context.replays.clear()
    return judged


def _add_rejects(rejects: Sequence[Reject], collected: Collected) -> None:
    """Rows of pairs that were refused: they became no task, and are kept with the reason."""
    at = now()
    tasks: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    for gate, shown, reason in rejects:
        task_id = artifact_id("pair", [gate, shown])
        split = _split_of(shown)
        tasks.append(
            {"task_id": task_id, "family": "preferences", "template": "pair", "split": split,
             "question": shown, "answer": "", "slots": "{}", "sources": [], "difficulty": None,
             "status": "rejected", "reason": f"{gate}: {reason}", "gated_at": at}
        )  # fmt: skip
        verdicts.append(
            {"task_id": task_id, "gate": gate, "position": POSITIONS[gate], "passed": False,
             "reason": reason, "measured": None, "gated_at": at}
        )  # fmt: skip
        collected.candidates += 1
        collected.dropped[gate] += 1
    if tasks:
        collected.keep_rows(to_arrow("tasks", tasks), to_arrow("gate_verdicts", verdicts))


def _split_of(shown: str) -> str:
    """Of a refused pair; of one that cannot be read, none."""
    try:
        return weights_split(dict(json.loads(shown)["weights"]))
    except (ValueError, TypeError, KeyError):
        return ""
