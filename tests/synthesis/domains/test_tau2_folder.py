"""Tests of a domain in tau2's format: its tools reach our states, its texts remain data, and
invalid names are reported."""

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.synthesis.domains.lending import TASKS, expected_of
from tests.synthesis.domains.tau2_double import loaded
from tests.synthesis.example import EXAMPLE, EXTENDED
from tutti.errors import UsageError
from tutti.tasks.benchmarks.tau2.domain import read_domain
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    FieldSpec,
    Parameter,
    TableSpec,
    ToolSpec,
    changed_task,
    write_tau2_folder,
)
from tutti.tasks.synthesis.domains.source import state_hash
from tutti.tasks.synthesis.domains.tau2_source import tau2_source

KINDS = Domain(
    name="kinds",
    about="One table with every kind of value",
    tables=(
        TableSpec(
            name="things",
            key="thing_id",
            fields=(
                FieldSpec(name="thing_id", kind="text"),
                FieldSpec(name="state", kind="text", one_of=("new", 'it\'s "old"')),
                FieldSpec(name="tags", kind="texts", one_of=("a", "b")),
                FieldSpec(name="price", kind="number", least=0, most=1e6),
                FieldSpec(name="count", kind="integer", least=0, optional=True),
                FieldSpec(name="model_year", kind="integer", most=float("inf")),
                FieldSpec(name="is_open", kind="boolean"),
                FieldSpec(name="since", kind="date"),
            ),
        ),
        TableSpec(name="empty", key="id", fields=(FieldSpec(name="id", kind="text"),)),
    ),
    records={
        "things": {
            "T1": {
                "thing_id": "T1",
                "state": "new",
                "tags": ["a"],
                "price": 10,
                "count": None,
                "model_year": 1999,
                "is_open": True,
                "since": "2024-02-29",
            }
        },
        "empty": {},
    },
    toolkit='''
def set_price(db, thing_id, price, state="it's \\"old\\""):
    """Set a price."""
    if thing_id not in db["things"]:
        raise ToolError("there is no " + thing_id)
    db["things"][thing_id]["price"] = price
    db["things"][thing_id]["state"] = state
    return db["things"][thing_id]


def spoil(db):
    """Break the table's rules."""
    db["things"]["T1"]["price"] = -1
''',
    tools=(
        ToolSpec(
            name="set_price",
            kind="WRITE",
            about="Set a price.\nArgs:\n    state: not this",
            parameters=(
                Parameter(name="state", kind="text", about="", optional=True),
                Parameter(name="thing_id", kind="text", about="which"),
                Parameter(name="price", kind="number", about="the new one"),
            ),
        ),
        ToolSpec(name="spoil", kind="WRITE", about="Break it."),
    ),
)


async def written(folder: Path) -> tuple[DomainTask, ...]:
    """Write the lending desk and return its tasks."""
    tasks = await expected_of(EXAMPLE, TASKS)
    write_tau2_folder(folder, EXAMPLE, tasks)
    return tasks


async def test_golden_actions_lead_to_our_states(tmp_path: Path) -> None:
    """tau2's tools, its hash and the task's initial state give the same results as our sandbox."""
    tasks = {each.task_id: each for each in await written(tmp_path)}
    with loaded(tmp_path, "lending") as domain:
        made = domain.tasks(None)
        assert [each.id for each in made] == list(tasks)
        for one in made:
            tools = domain.environment().tools
            start = (one.initial_state or {}).get("initialization_data", {}).get("agent_data", {})
            for table, keyed in start.items():
                for key, fields in keyed.items():
                    for field, value in fields.items():
                        setattr(getattr(tools.db, table)[key], field, value)
            for action in one.evaluation_criteria["actions"]:
                tools.use_tool(action["name"], **action["arguments"])
            assert tools.get_db_hash() == tasks[one.id].world.expected
        assert domain.splits()["base"] == list(tasks)
        assert {each.id for each in domain.tasks("test")} == set(domain.splits()["test"])
        assert domain.environment().policy == EXAMPLE.policy


async def test_our_reader_of_tau2_reads_it(tmp_path: Path) -> None:
    """The loader of tau2's data reads tasks, policy, database and splits."""
    tasks = await written(tmp_path)
    found = read_domain(tmp_path / "data/tau2/domains/lending")
    assert [each.id for each in found.tasks] == [each.task_id for each in tasks]
    assert found.db == EXAMPLE.records and found.policy == EXAMPLE.policy
    assert found.tasks[0].rewards == ("DB", "COMMUNICATE")
    assert found.tasks[0].communicate == ("21",)
    assert (
        found.tasks[2].initial_state["initialization_data"]["agent_data"] == tasks[2].world.changed
    )
    assert EXTENDED.world.scenario.reason in found.tasks[0].scenario


async def test_the_same_domain_gives_the_same_bytes(tmp_path: Path) -> None:
    """Another name gives other paths."""
    tasks = await written(tmp_path / "a")
    await written(tmp_path / "b")
    files = [each for each in sorted((tmp_path / "a").rglob("*")) if each.is_file()]
    assert len(files) == 11
    for file in files:
        other = tmp_path / "b" / file.relative_to(tmp_path / "a")
        assert file.read_bytes() == other.read_bytes()
    write_tau2_folder(tmp_path / "c", EXAMPLE, tasks, "desk")
    with loaded(tmp_path / "c", "desk") as domain:
        instructions = domain.tasks()[0].user_scenario["instructions"]
        assert instructions["domain"] == domain.environment().domain == "desk"


def test_values_stay_as_they_are(tmp_path: Path) -> None:
    """An integer of kind `number` stays an integer, because 10.0 in place of 10 would change the
    hash."""
    write_tau2_folder(tmp_path, KINDS, [])
    with loaded(tmp_path, "kinds") as domain:
        tools = domain.environment().tools
        assert tools.get_db_hash() == state_hash(KINDS.records)
        tools.use_tool("set_price", thing_id="T1", price=12, state="new")
        assert repr(tools.db.model_dump()["things"]["T1"]["price"]) == "12"
        tools.use_tool("set_price", thing_id="T1", price=12.5)
        assert tools.db.things["T1"].state == 'it\'s "old"', "the toolkit's own default"
        before = tools.get_db_hash()
        with pytest.raises(Exception, match="there is no T2"):
            tools.use_tool("set_price", thing_id="T2", price=1)
        with pytest.raises(ValidationError, match="greater than or equal to 0"):
            tools.use_tool("spoil")
        assert tools.get_db_hash() == before
        signature = inspect.signature(type(tools).set_price)
        assert list(signature.parameters) == ["self", "thing_id", "price", "state"]
        assert type(tools).set_price.__doc__.splitlines()[0] == "Set a price. Args: state: not this"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("price", "10", "price"),
        ("price", True, "price"),
        ("count", 1.0, "count"),
        ("state", "used", "state"),
        ("tags", ["c"], "tags"),
        ("is_open", 1, "is_open"),
        ("colour", "red", "colour"),
    ],
)
def test_records_that_do_not_fit(tmp_path: Path, field: str, value: Any, words: str) -> None:
    """The generated models refuse values that the tables do not allow."""
    things = {"T1": KINDS.records["things"]["T1"] | {field: value}}
    bad = KINDS.model_copy(update={"records": {"things": things, "empty": {}}})
    write_tau2_folder(tmp_path, bad, [])
    with loaded(tmp_path, "kinds") as domain, pytest.raises(ValidationError, match=words):
        domain.environment()


def with_texts(text: str) -> Domain:
    """Return the domain of all kinds with `text` in place of every free text."""
    fields = [
        each.model_copy(update={"about": text, "one_of": (text,) if each.one_of else ()})
        for each in KINDS.tables[0].fields
    ]
    table = KINDS.tables[0].model_copy(update={"about": text, "fields": tuple(fields)})
    tool = KINDS.tools[0]
    parameters = [each.model_copy(update={"about": text}) for each in tool.parameters]
    tool = tool.model_copy(update={"about": text, "parameters": tuple(parameters)})
    return KINDS.model_copy(
        update={"about": text, "tables": (table, KINDS.tables[1]), "tools": (tool, KINDS.tools[1])}
    )


def shape(source: str) -> str:
    """Return the source without the content of its literals."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


NASTY = (
    '"""',
    "'''",
    "\\",
    "\n\nimport os\nos.system('x')\n",
    '")]\nBAD = 1',
    "$tables ${name} $$",
    "{0} {x} %s",
    "\x00\x1b[31m\u2028\u202e\N{ZERO WIDTH SPACE}",
    "# -*- coding: latin-1 -*-\r\n",
    "\\N{BULLET}\\",
)


@given(
    st.text(max_size=60) | st.sampled_from(NASTY) | st.lists(st.sampled_from(NASTY)).map("".join)
)
def test_no_text_becomes_code(text: str) -> None:
    """For any texts of a domain, the written source has the same structure and contains them as
    literals."""
    plain, nasty = tau2_source(with_texts("x"), "kinds"), tau2_source(with_texts(text), "kinds")
    assert {name: shape(source) for name, source in nasty.items()} == {
        name: shape(source) for name, source in plain.items()
    }
    nodes = ast.walk(ast.parse(nasty["data_model.py"]))
    literals = {each.value for each in nodes if isinstance(each, ast.Constant)}
    assert text in literals, "of `one_of`: a value that is lost would be refused as no such value"


async def test_texts_of_tasks_and_rules_are_data(tmp_path: Path) -> None:
    """Such texts are only in JSON and in the policy, unchanged."""
    (task, *_) = await expected_of(EXAMPLE, TASKS)
    nasty = "".join(NASTY)
    scenario = task.world.scenario.model_copy(update={"reason": nasty, "persona": nasty})
    odd = changed_task(task, scenario=scenario, communicate=("1,250", nasty))
    rule = EXAMPLE.rules[1].model_copy(update={"text": nasty})
    domain = EXAMPLE.model_copy(update={"rules": (EXAMPLE.rules[0], rule)})
    write_tau2_folder(tmp_path, domain, [odd])
    (one,) = json.loads((tmp_path / "data/tau2/domains/lending/tasks.json").read_text())
    assert one["user_scenario"]["persona"] == nasty
    assert one["user_scenario"]["instructions"]["reason_for_call"] == nasty
    assert one["evaluation_criteria"]["communicate_info"] == ["1250", nasty.replace(",", "")]
    for file in (tmp_path / "src").rglob("*.py"):
        assert "os.system" not in file.read_text()


def changed(**update: Any) -> Domain:
    """Return the domain of all kinds with other parts."""
    return KINDS.model_copy(update=update)


def tool(name: str = "act", *parameters: str) -> tuple[ToolSpec, ...]:
    """Return a tool with parameters of these names."""
    made = tuple(Parameter(name=each, kind="text", about="") for each in parameters)
    return (ToolSpec(name=name, kind="READ", about="", parameters=made),)


def table(name: str, *fields: str) -> TableSpec:
    """Return a table with fields of these names."""
    return TableSpec(name=name, key="x", fields=[FieldSpec(name=f, kind="text") for f in fields])


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (changed(name="class"), "the package: 'class' is no name that Python allows"),
        (changed(name="retail"), "the package: 'retail' is a name of tau2's own"),
        (changed(tools=tool("import")), "tools: 'import' is no name"),
        (changed(tools=tool("use_tool")), "tools: 'use_tool' is a name of tau2's own"),
        (changed(tools=tool() + tool()), "tools: 'act' is there twice"),
        (changed(tools=tool("act", "self")), r"tools\.act: 'self' is a name of tau2's own"),
        (changed(tools=tool("act", "requestor")), "'requestor' is a name of tau2's own"),
        (changed(tools=tool("act", "lambda")), "'lambda' is no name"),
        (changed(tools=tool("act", "a", "a")), "'a' is there twice"),
        (changed(tables=(table("copy"),)), "tables: 'copy' is a name of tau2's own"),
        (changed(tables=(table("load"),)), "tables: 'load' is a name of tau2's own"),
        (changed(tables=(table("a_b"), table("a__b"))), "'ABRecord' is there twice"),
        (changed(tables=(table("a", "json"),)), r"tables\.a: 'json' is a name of tau2's own"),
        (changed(tables=(table("a", "from"),)), r"tables\.a: 'from' is no name"),
        (changed(records={"things": {}}), "tables and records differ in empty"),
    ],
)
def test_names_that_tau2_cannot_have(tmp_path: Path, domain: Domain, words: str) -> None:
    """The error is one message with place and name, and nothing is written."""
    with pytest.raises(UsageError, match=words):
        write_tau2_folder(tmp_path, domain, [])
    assert not list(tmp_path.iterdir())


async def test_what_else_is_refused(tmp_path: Path) -> None:
    """Errors are raised for an invalid name, a task without a state and a duplicate task."""
    with pytest.raises(UsageError, match=r"name: '\.\./x'"):
        write_tau2_folder(tmp_path, EXAMPLE, [], "../x")
    with pytest.raises(UsageError, match="expected is empty"):
        write_tau2_folder(tmp_path, EXAMPLE, [EXTENDED])
    (task, *_) = await expected_of(EXAMPLE, TASKS)
    with pytest.raises(UsageError, match="is there twice"):
        write_tau2_folder(tmp_path, EXAMPLE, [task, task])
    assert not list(tmp_path.iterdir())
