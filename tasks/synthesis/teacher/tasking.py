"""The chain from a domain to its tasks: intents, tasks, and harder variants of them.

In: a domain from `Chain`. Out: tasks whose golden calls replay under the policy, the rejects with
their reasons, and the unfinished rows, which a later run asks for.
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
from tutti.tasks.synthesis.programs.base.program import split_of
from tutti.tasks.synthesis.teacher.asking import Question
from tutti.tasks.synthesis.teacher.batch import prefetch
from tutti.tasks.synthesis.teacher.chain import Chain, as_json, shown_policy, shown_records
from tutti.tasks.synthesis.teacher.faults import BudgetSpent, TeacherFailed
from tutti.tasks.synthesis.teacher.items import ItemsQuestion, ask_items
from tutti.tasks.synthesis.teacher.products import IntentAnswer, TaskAnswer
from tutti.tasks.synthesis.teacher.running import replay_task
from tutti.tasks.synthesis.teacher.store import Product
from tutti.tasks.task_sets import task_line


@dataclass(frozen=True)
class TeacherTasks:
    """The result of a chain."""

    domain: Domain
    tasks: Sequence[DomainTask]
    rejects: Sequence[tuple[str, str, str]]
    unfinished: Mapping[str, str]
    """Rows without a product, with the reason: the endpoint failed, or the budget is spent."""


@dataclass(frozen=True)
class _Row:
    step: str
    row: str
    template: str
    prompt: str
    parent: DomainTask | None = None


async def make_tasks(chain: Chain) -> TeacherTasks:
    """The domain and tasks of a chain. Raises TeacherFailed, BudgetSpent without a domain."""
    domain = await chain.make_domain()
    writer = _Writer(chain, domain)
    try:
        intents = await _intents(chain, domain)
    except BudgetSpent as error:
        rejects = chain.teacher.store.rejects(chain.run)
        return TeacherTasks(domain, (), rejects, {"intents": str(error)})
    first = [writer.first_row(str(nth), each) for nth, each in enumerate(intents)]
    tasks = parents = await writer.write(first)
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
            topic=chain.request.topic, tools=as_json(domain.tools), policy=shown_policy(domain),
            count=str(missing), existing="\n".join(each.intent for each in existing) or "none",
        )  # fmt: skip

    def check(item: IntentAnswer, existing: Sequence[IntentAnswer]) -> str:
        same = any(_plain(each.intent) == _plain(item.intent) for each in existing)
        return f"{item.intent!r} exists already" if same else ""

    question = ItemsQuestion("intents", prompt, IntentAnswer, chain.request.intents, check)
    intents = await ask_items(chain.teacher, question)
    for number, (value, why) in enumerate(intents.rejects):
        store.keep_product(chain.run, "intent", str(number), Product("rejected", value, why))
    values = [each.model_dump(mode="json") for each in intents.kept]
    store.keep_product(chain.run, "intents", "", Product("kept", values, ""))
    return intents.kept


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


class _Writer:
    def __init__(self, chain: Chain, domain: Domain) -> None:
        self._chain, self._domain = chain, domain
        self.unfinished: dict[str, str] = {}
        self._accepted: dict[str, DomainTask] = {}  # by row, the task that the check accepted
        self._shown = {
            "topic": chain.request.topic,
            "records": shown_records(domain, None),
            "tools": as_json(domain.tools),
            "policy": shown_policy(domain),
        }

    def first_row(self, row: str, intent: IntentAnswer) -> _Row:
        text = self._chain.prompts["task"].render(intent=intent.intent, **self._shown)
        return _Row("task", row, intent.template, text)

    def next_row(self, row: str, parent: DomainTask) -> _Row:
        fields = {"scenario", "actions", "communicate", "rules", "forbidden"}
        task = parent.world.model_dump_json(include=fields)
        text = self._chain.prompts["evolve"].render(task=task, **self._shown)
        return _Row("evolution", row, parent.template, text, parent)

    async def write(self, rows: Sequence[_Row]) -> dict[str, DomainTask]:
        questions = [(row, self._question(row)) for row in rows if self._stored(row) is None]
        if self._chain.request.batch:
            await prefetch(self._chain.teacher, [question for _, question in questions])
        async with asyncio.TaskGroup() as group:
            for each in questions:
                group.create_task(self._finish(*each))
        return {
            row.row: DOMAIN_TASK.validate_python(product.value)
            for row in rows
            if (product := self._stored(row)) is not None and product.status == "kept"
        }

    def _stored(self, row: _Row) -> Product | None:
        return self._chain.teacher.store.product(self._chain.run, row.step, row.row)

    def _question(self, row: _Row) -> Question[TaskAnswer]:
        async def check(answer: TaskAnswer) -> str:
            task = _task_of(answer, row, self._domain)
            why = _not_harder(task, row.parent) if row.parent is not None else ""
            if why:
                return why
            async with self._chain.checks:
                replay = await replay_task(self._domain, task)
            self._accepted[row.row] = changed_task(
                task, expected=replay.expected, sources=replay.entities
            )
            return replay.reason

        return Question(f"{row.step}-{row.row.replace('.', '-')}", row.prompt, TaskAnswer, check)

    async def _finish(self, row: _Row, question: Question[TaskAnswer]) -> None:
        try:
            await self._chain.teacher.ask(question)
            product = Product("kept", json.loads(task_line(self._accepted[row.row])), "")
        except (BudgetSpent, TeacherFailed) as error:
            if isinstance(error, BudgetSpent) or not error.is_final:
                self.unfinished[f"{row.step} {row.row}"] = str(error)
                return
            product = Product("rejected", None, str(error))
        self._chain.teacher.store.keep_product(self._chain.run, row.step, row.row, product)


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


def split_apart(tasks: Sequence[DomainTask]) -> list[DomainTask]:
    """Return the tasks with splits such that no entity is in two of them. Tasks that share an
    entity, directly or through others, get the split of their first entity in alphabetical order; a
    harder variant gets that of its original task."""
    group_of: dict[str, str] = {}

    def root(name: str) -> str:
        while group_of.setdefault(name, name) != name:
            name = group_of[name]
        return name

    for task in tasks:
        names = [*task.sources, *filter(None, (task.task_id, task.world.evolved_from))]
        for name in names[1:]:
            # A group that has entities is named after one: only their names hold a slash.
            pair = root(names[0]), root(name)
            first, second = sorted(pair, key=lambda each: ("/" not in each, each))
            group_of[second] = first
    splits = [split_of(root(task.sources[0] if task.sources else task.task_id)) for task in tasks]
    return [changed_task(t, split=s) for t, s in zip(tasks, splits, strict=True)]
