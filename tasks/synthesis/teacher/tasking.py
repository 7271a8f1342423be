"""The chain from a domain to its tasks: intents, tasks, and harder variants of them.

In: a domain that `Chain` made. Out: tasks whose golden calls replay under the policy, the rejects
with their reasons, and why it stopped where the budget did not suffice. Each task is a row of the
store; a run that goes on asks only for rows that are neither kept nor rejected.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.tasks.synthesis.domains import (
    DOMAIN_TASK,
    Domain,
    DomainSpec,
    DomainTask,
    changed_task,
)
from tutti.tasks.synthesis.programs.program import split_of
from tutti.tasks.synthesis.teacher.asking import Question
from tutti.tasks.synthesis.teacher.batch import prefetch
from tutti.tasks.synthesis.teacher.chain import Chain, as_json, shown_records, told_policy
from tutti.tasks.synthesis.teacher.faults import BudgetSpent, TeacherFailed
from tutti.tasks.synthesis.teacher.items import ItemsQuestion, ask_items
from tutti.tasks.synthesis.teacher.products import IntentAnswer, TaskAnswer
from tutti.tasks.synthesis.teacher.running import TaskReplay, replay_task
from tutti.tasks.synthesis.teacher.store import Product
from tutti.tasks.task_sets import task_line


@dataclass(frozen=True)
class TeacherTasks:
    """What came of a chain."""

    domain: Domain
    tasks: Sequence[DomainTask]
    rejects: Sequence[tuple[str, str, str]]
    """(step, row, reason)."""
    unfinished: Mapping[str, str]
    """Rows without a product, with the reason: the endpoint failed, or the budget is spent. The
    next run goes on with them."""


@dataclass(frozen=True)
class _Row:
    """One task to be asked for."""

    step: str
    row: str
    template: str
    prompt: str
    parent: DomainTask | None = None


async def make_tasks(chain: Chain) -> TeacherTasks:
    """The domain and tasks of a chain. Raises TeacherFailed, BudgetSpent while there is no domain
    yet; what was finished is stored."""
    domain = await chain.make_domain()
    writer = _Writer(chain, domain)
    try:
        intents = await _intents(chain, domain)
    except BudgetSpent as error:
        rejects = chain.teacher.store.rejects(chain.run)
        return TeacherTasks(domain, (), rejects, {"intents": str(error)})
    asked = [writer.first_row(str(nth), each) for nth, each in enumerate(intents)]
    tasks = parents = await writer.write(asked)
    for turn in range(1, chain.request.evolutions + 1):
        harder = [writer.next_row(f"{row}.{turn}", task) for row, task in parents.items()]
        parents = await writer.write(harder)
        tasks = tasks | parents
    rejects = chain.teacher.store.rejects(chain.run)
    return TeacherTasks(domain, split_apart(list(tasks.values())), rejects, writer.unfinished)


async def _intents(chain: Chain, domain: Domain) -> list[IntentAnswer]:
    store = chain.teacher.store
    known = store.product(chain.run, "intents", "")
    if known is not None:
        return [IntentAnswer.model_validate(each) for each in known.value]

    def prompt(existing: Sequence[IntentAnswer], missing: int) -> str:
        return chain.prompts["intents"].render(
            topic=chain.request.topic, tools=as_json(domain.tools), policy=told_policy(domain),
            count=str(missing), existing="\n".join(each.intent for each in existing) or "none",
        )  # fmt: skip

    def check(item: IntentAnswer, existing: Sequence[IntentAnswer]) -> str:
        same = any(_plain(each.intent) == _plain(item.intent) for each in existing)
        return f"{item.intent!r} exists already" if same else ""

    question = ItemsQuestion("intents", prompt, IntentAnswer, chain.request.intents, check)
    found = await ask_items(chain.teacher, question)
    for number, (value, why) in enumerate(found.rejects):
        store.keep_product(chain.run, "intent", str(number), Product("rejected", value, why))
    kept = [each.model_dump(mode="json") for each in found.kept]
    store.keep_product(chain.run, "intents", "", Product("kept", kept, ""))
    return found.kept


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


class _Writer:
    """Asks for tasks of one domain."""

    def __init__(self, chain: Chain, domain: Domain) -> None:
        self._chain, self._domain = chain, domain
        self.unfinished: dict[str, str] = {}

    def first_row(self, row: str, intent: IntentAnswer) -> _Row:
        """The row of a task for an intent."""
        text = self._chain.prompts["task"].render(intent=intent.intent, **self._shown)
        return _Row("task", row, intent.template, text)

    def next_row(self, row: str, parent: DomainTask) -> _Row:
        """The row of a harder variant of a task."""
        kept = {"scenario", "actions", "communicate", "rules", "forbidden"}
        task = parent.world.model_dump_json(include=kept)
        text = self._chain.prompts["evolve"].render(task=task, **self._shown)
        return _Row("evolution", row, parent.template, text, parent)

    @property
    def _shown(self) -> dict[str, str]:
        domain = self._domain
        return {
            "topic": self._chain.request.topic,
            "records": shown_records(domain, None),
            "tools": as_json(domain.tools),
            "policy": told_policy(domain),
        }

    async def write(self, rows: Sequence[_Row]) -> dict[str, DomainTask]:
        """The tasks of `rows` that are right, by row, in order."""
        missing = [row for row in rows if self._stored(row) is None]
        questions = {row.row: _Question(row, self._domain, self._chain) for row in missing}
        if self._chain.request.batch:
            await prefetch(self._chain.teacher, [each.question for each in questions.values()])
        async with asyncio.TaskGroup() as group:
            for each in questions.values():
                group.create_task(self._finish(each))
        found = {row.row: self._stored(row) for row in rows}
        return {
            row: DOMAIN_TASK.validate_python(product.value)
            for row, product in found.items()
            if product is not None and product.status == "kept"
        }

    def _stored(self, row: _Row) -> Product | None:
        return self._chain.teacher.store.product(self._chain.run, row.step, row.row)

    async def _finish(self, asked: "_Question") -> None:
        row, store = asked.row, self._chain.teacher.store
        try:
            await self._chain.teacher.ask(asked.question)
            product = Product("kept", json.loads(task_line(asked.task)), "")
        except BudgetSpent as error:
            self.unfinished[f"{row.step} {row.row}"] = str(error)
            return
        except TeacherFailed as error:
            if not error.is_final:
                self.unfinished[f"{row.step} {row.row}"] = str(error)
                return
            product = Product("rejected", None, str(error))
        store.keep_product(self._chain.run, row.step, row.row, product)


class _Question:
    """A row's question; keeps the task that its check accepted."""

    task: DomainTask

    def __init__(self, row: _Row, domain: Domain, chain: Chain) -> None:
        self.row, self._domain, self._checks = row, domain, chain.checks
        name = f"{row.step}-{row.row.replace('.', '-')}"
        self.question = Question(name, row.prompt, TaskAnswer, self._check)

    async def _check(self, answer: TaskAnswer) -> str:
        task = _task_of(answer, self.row, self._domain)
        why = _not_harder(task, self.row.parent) if self.row.parent is not None else ""
        if why:
            return why
        async with self._checks:
            replay = await replay_task(self._domain, task)
        self.task = _with_replay(task, replay)
        return replay.reason


def _task_of(answer: TaskAnswer, row: _Row, domain: Domain) -> DomainTask:
    actions = tuple(each.action for each in answer.calls)
    tools = len({each.name for each in actions})
    return DomainTask(
        family=domain.name,
        template=row.template,
        split="train",
        difficulty={"steps": len(actions), "tools": tools, "evolved": row.row.count(".")},
        world=DomainSpec(
            domain=domain.domain_id,
            scenario=answer.scenario,
            actions=actions,
            communicate=answer.communicate,
            rules=answer.rules,
            forbidden=tuple(each.action for each in answer.forbidden),
            evolved_from="" if row.parent is None else row.parent.task_id,
        ),
    )


def _not_harder(task: DomainTask, parent: DomainTask) -> str:
    calls, before = task.world.actions, parent.world.actions
    steps = len(calls) > len(before)
    tools = len({a.name for a in calls}) > len({a.name for a in before})
    if steps or tools:
        return ""
    return f"not harder: {len(calls)} calls, and the given task has {len(before)}"


def _with_replay(task: DomainTask, replay: TaskReplay) -> DomainTask:
    return changed_task(task, expected=replay.expected, sources=replay.entities)


def split_apart(tasks: Sequence[DomainTask]) -> list[DomainTask]:
    """The tasks with splits such that no entity is in two of them.

    Tasks that share an entity, directly or through others, get the split of their first entity in
    alphabetical order; a harder variant gets that of the task it comes from.
    """
    group_of: dict[str, str] = {}

    def root(name: str) -> str:
        while group_of.setdefault(name, name) != name:
            name = group_of[name]
        return name

    for task in tasks:
        names = [*task.sources, *filter(None, (task.task_id, task.world.evolved_from))]
        for name in names[1:]:
            first, second = sorted((root(names[0]), root(name)), key=_entities_first)
            group_of[second] = first
    splits = [split_of(root(task.sources[0] if task.sources else task.task_id)) for task in tasks]
    return [changed_task(t, split=s) for t, s in zip(tasks, splits, strict=True)]


def _entities_first(name: str) -> tuple[bool, str]:
    """A group that has entities is named after one: they hold a slash, ids of tasks do not."""
    return "/" not in name, name
