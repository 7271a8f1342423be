"""The chain of questions from a topic to a domain: tables, records, toolkit, policy rules.

In: a request and a teacher. Out: a `Domain`. Each product is checked before the next step uses it,
sent back once with the exact errors, and stored; a later run asks only for the missing ones.
Generated code runs in the sandbox only.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from tutti.storage import content_hash
from tutti.tasks.synthesis.domains import Action, Domain, TableChecks, TableSpec
from tutti.tasks.synthesis.teacher.asking import Question, Teacher
from tutti.tasks.synthesis.teacher.batch import prefetch
from tutti.tasks.synthesis.teacher.faults import TeacherFailed
from tutti.tasks.synthesis.teacher.items import Items, ItemsQuestion, ask_items, items_question
from tutti.tasks.synthesis.teacher.plan import TeacherRequest
from tutti.tasks.synthesis.teacher.products import (
    Ids,
    PolicyAnswer,
    TablesAnswer,
    ToolkitAnswer,
    given_ids,
    record_reason,
    tables_reason,
)
from tutti.tasks.synthesis.teacher.prompts import Prompt, read_prompts
from tutti.tasks.synthesis.teacher.running import policy_reason, toolkit_reason
from tutti.tasks.synthesis.teacher.store import Product

T = TypeVar("T", bound=BaseModel)
GENERATOR_VERSION = "1"
CHAIN_PROMPTS = ("tables", "records", "toolkit", "policy", "intents", "task", "evolve")
SHOWN_RECORDS = 3
"""Of each table, in the prompts of toolkit and policy."""
CHECKS_AT_ONCE = 2
"""Interpreters that check products side by side."""
LONG_ANSWER = 16_384
Record = dict[str, Any]


@dataclass
class Chain:
    """One request's questions and products."""

    request: TeacherRequest
    teacher: Teacher
    prompts: Mapping[str, Prompt] = field(default_factory=read_prompts)

    def __post_init__(self) -> None:
        """Set the run's id, a hash of everything that its products depend on."""
        hashes = {name: self.prompts[name].hash for name in CHAIN_PROMPTS}
        asked = self.request.model_dump(exclude={"batch"})
        teacher = [self.teacher.endpoint.model, self.teacher.sampling.temperature]
        self.run = content_hash([GENERATOR_VERSION, asked, teacher, hashes])
        self.checks = asyncio.Semaphore(CHECKS_AT_ONCE)

    async def make_domain(self) -> Domain:
        """Return the domain from stored and new products. Raises TeacherFailed, BudgetSpent."""
        tables = await self._tables()
        records = await self._records(tables.tables)
        domain = Domain(
            name=tables.name, about=tables.about, tables=tables.tables, records=records,
            toolkit="", tools=(), lineage=self.lineage,
        )  # fmt: skip
        domain, examples = await self._with_toolkit(domain)
        return await self._with_policy(domain, examples)

    @property
    def lineage(self) -> dict[str, Any]:
        """The generator and its settings, for `Domain.lineage`."""
        return {
            "generator": "teacher",
            "version": GENERATOR_VERSION,
            "model": self.teacher.endpoint.model,
            "answer_form": str(self.teacher.mode),
            "temperature": self.teacher.sampling.temperature,
            "seed": self.teacher.sampling.seed,
            "request": self.request.model_dump(),
            "run": self.run,
            "prompts": [self.prompts[name].lineage for name in CHAIN_PROMPTS],
        }

    async def once(self, step: str, question: Question[T]) -> T:
        """Return the single product of a step, from the store or from the teacher. Raises
        TeacherFailed, also for a product that an earlier run rejected."""
        store = self.teacher.store
        known = store.product(self.run, step, "")
        if known is not None and known.status == "rejected":
            raise TeacherFailed(f"{known.reason} (in an earlier run)")
        if known is not None:
            return question.answer.model_validate(known.value)
        try:
            value = await self.teacher.ask(question)
        except TeacherFailed as error:
            if error.is_final:
                store.keep_product(self.run, step, "", Product("rejected", None, str(error)))
            raise
        store.keep_product(self.run, step, "", Product("kept", value.model_dump(mode="json"), ""))
        return value

    async def _tables(self) -> TablesAnswer:
        request = self.request
        text = self.prompts["tables"].render(topic=request.topic, count=str(request.tables))
        return await self.once("tables", Question("tables", text, TablesAnswer, tables_reason))

    async def _records(self, tables: Sequence[TableSpec]) -> dict[str, dict[str, Record]]:
        ids = given_ids(tables, self.request.records)
        size = self.request.chunk
        chunks = {
            f"{table.name}-{first // size}": (table, ids[table.name][first : first + size])
            for table in tables
            for first in range(0, self.request.records, size)
        }
        questions = {row: self._chunk(row, *chunks[row], tables, ids) for row in chunks}
        if self.request.batch:
            stored = self.teacher.store.product
            missing = [q for row, q in questions.items() if not stored(self.run, "records", row)]
            first = [items_question(self.teacher, each, 0, Items()) for each in missing]
            await prefetch(self.teacher, first)
        async with asyncio.TaskGroup() as group:
            asked = {r: group.create_task(self._kept_chunk(r, q)) for r, q in questions.items()}
        records: dict[str, dict[str, Record]] = {table.name: {} for table in tables}
        for row, (table, _) in chunks.items():
            records[table.name] |= {each[table.key]: each for each in asked[row].result()}
        return self._without_dangling(tables, records)

    def _chunk(
        self, row: str, table: TableSpec, keys: Sequence[str], tables: Sequence[TableSpec], ids: Ids
    ) -> ItemsQuestion[BaseModel]:
        checks = TableChecks(table)
        referred = {each.refers_to for each in table.fields if each.refers_to}

        def prompt(existing: Sequence[BaseModel], missing: int) -> str:
            made = [each.model_dump(by_alias=True) for each in existing]
            free = [key for key in keys if key not in {each[table.key] for each in made}]
            return self.prompts["records"].render(
                topic=self.request.topic, tables=as_json(tables), count=str(missing),
                table=table.name, key=table.key, ids=", ".join(free),
                others="\n".join(f"{name}: {', '.join(ids[name])}" for name in sorted(referred)),
                existing="\n".join(map(json.dumps, made)) or "none",
            )  # fmt: skip

        def check(item: BaseModel, existing: Sequence[BaseModel]) -> str:
            record = item.model_dump(by_alias=True)
            made = (each.model_dump(by_alias=True) for each in existing)
            if any(each[table.key] == record[table.key] for each in made):
                return f"{table.key}: {record[table.key]!r} exists already"
            if record[table.key] not in keys:
                return f"{table.key}: {record[table.key]!r} is not one of the given ids"
            return record_reason(checks, record, ids)

        return ItemsQuestion(f"records-{row}", prompt, checks.model, len(keys), check)

    async def _kept_chunk(self, row: str, question: ItemsQuestion[BaseModel]) -> list[Record]:
        store = self.teacher.store
        known = store.product(self.run, "records", row)
        if known is not None:
            return list(known.value)
        items = await ask_items(self.teacher, question)
        for number, (value, why) in enumerate(items.rejects):
            rejected = Product("rejected", value, why)
            store.keep_product(self.run, "record", f"{row}-{number}", rejected)
        records = [each.model_dump(mode="json", by_alias=True) for each in items.kept]
        store.keep_product(self.run, "records", row, Product("kept", records, ""))
        return records

    def _without_dangling(
        self, tables: Sequence[TableSpec], records: dict[str, dict[str, Record]]
    ) -> dict[str, dict[str, Record]]:
        while lost := list(_dangling(tables, records)):
            for table, key, why in lost:
                value = records[table].pop(key)
                product = Product("rejected", value, why)
                self.teacher.store.keep_product(self.run, "record", f"{table}/{key}", product)
        return records

    async def _with_toolkit(self, domain: Domain) -> tuple[Domain, list[Action]]:
        def with_tools(answer: ToolkitAnswer) -> tuple[Domain, list[Action]]:
            tools = tuple(each.spec for each in answer.tools)
            complete = domain.model_copy(update={"toolkit": answer.code, "tools": tools})
            return complete, [each.action for each in answer.tools]

        async def check(answer: ToolkitAnswer) -> str:
            async with self.checks:
                return await toolkit_reason(*with_tools(answer))

        text = self.prompts["toolkit"].render(
            topic=self.request.topic, tables=as_json(domain.tables), records=shown_records(domain),
            count=str(self.request.tools),
        )  # fmt: skip
        question = Question("toolkit", text, ToolkitAnswer, check, LONG_ANSWER)
        return with_tools(await self.once("toolkit", question))

    async def _with_policy(self, domain: Domain, examples: Sequence[Action]) -> Domain:
        def with_rules(answer: PolicyAnswer) -> Domain:
            code = f"{domain.toolkit.rstrip()}\n\n\n{answer.code.strip()}\n"
            rules = tuple(each.rule for each in answer.rules)
            return domain.model_copy(update={"toolkit": code, "rules": rules})

        async def check(answer: PolicyAnswer) -> str:
            complete = with_rules(answer)
            async with self.checks:  # its code may have spoilt the tools
                why = await toolkit_reason(complete, examples)
                return why or await policy_reason(complete, answer.rules, examples)

        text = self.prompts["policy"].render(
            topic=self.request.topic, tables=as_json(domain.tables), records=shown_records(domain),
            tools=as_json(domain.tools), count=str(self.request.rules),
        )  # fmt: skip
        question = Question("policy", text, PolicyAnswer, check, LONG_ANSWER)
        return with_rules(await self.once("policy", question))


def _dangling(
    tables: Sequence[TableSpec], records: Mapping[str, Mapping[str, Record]]
) -> Iterator[tuple[str, str, str]]:
    """Yield (table, key, reason) of each record that refers to one that does not exist."""
    for table in tables:
        references = [each for each in table.fields if each.refers_to]
        for key, record in records[table.name].items():
            values = [(field, record[field.name]) for field in references]
            lost = [
                f"{field.name}: {wanted!r} is in no answer about {field.refers_to}"
                for field, value in values
                for wanted in (value if isinstance(value, list) else [value])
                if wanted is not None and wanted not in records[field.refers_to]
            ]
            if lost:
                yield table.name, key, lost[0]


def as_json(models: Sequence[BaseModel]) -> str:
    """Format models for a prompt, one per line."""
    return "\n".join(each.model_dump_json() for each in models)


def shown_records(domain: Domain, most: int | None = SHOWN_RECORDS) -> str:
    """Format the first records of each table for a prompt; all if `most` is None."""
    shown = {table: dict(list(kept.items())[:most]) for table, kept in domain.records.items()}
    return json.dumps(shown, ensure_ascii=False)


def shown_policy(domain: Domain) -> str:
    """Format the rules with their ids for a prompt."""
    return "\n".join(f"{rule.id}: {rule.text}" for rule in domain.rules) or "none"
