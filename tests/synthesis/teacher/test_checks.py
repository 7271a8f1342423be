"""Tests of checks of a teacher's products: errors name table, field, call and value, prompts are
files with a version, and entities are in one split only."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.synthesis.teacher.lending import BRANCH, LOANS, POLICY, TABLES, TOOLS, call
from tutti.errors import UsageError
from tutti.tasks.synthesis.domains import (
    Action,
    Domain,
    DomainSpec,
    DomainTask,
    Scenario,
    TableChecks,
    changed_task,
    record_model,
)
from tutti.tasks.synthesis.teacher.products import (
    PolicyAnswer,
    TablesAnswer,
    ToolkitAnswer,
    given_ids,
    record_reason,
    tables_reason,
)
from tutti.tasks.synthesis.teacher.prompts import read_prompts
from tutti.tasks.synthesis.teacher.reading import strict_schema
from tutti.tasks.synthesis.teacher.running import policy_reason, replay_task, toolkit_reason
from tutti.tasks.synthesis.teacher.tasking import split_apart

ANSWER = TablesAnswer.model_validate(TABLES)
LOAN_TABLE = ANSWER.tables[1]
IDS = {"cards": ["CA0001"], "loans": ["LO0001"]}
RIGHT = {"loan_id": "LO0001", "card": "CA0001", "title": "Tides", "days_left": 10}
KIT = ToolkitAnswer.model_validate({"code": BRANCH, "tools": TOOLS})
EXAMPLES = [each.action for each in KIT.tools]
DOMAIN = Domain(
    name="library_desk",
    about="Policy",
    tables=ANSWER.tables,
    records={
        "cards": {"CA0001": {"card_id": "CA0001", "holder": "Ida Moor", "kind": "adult"}},
        "loans": {"LO0001": dict(RIGHT)},
    },
    toolkit=BRANCH,
    tools=tuple(each.spec for each in KIT.tools),
)


def changed_table(**fields: object) -> TablesAnswer:
    loans = LOAN_TABLE.model_copy(update=fields)
    return ANSWER.model_copy(update={"tables": (ANSWER.tables[0], loans)})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ANSWER, ""),
        (changed_table(name="cards"), "two tables are called 'cards'"),
        (changed_table(key="id"), "loans: its key 'id' is not one of its fields"),
        (changed_table(key="days_left"), "loans.days_left: a key is text"),
        (ANSWER.model_copy(update={"tables": (LOAN_TABLE,)}), "loans.card: refers to 'cards'"),
        (ANSWER.model_copy(update={"tables": ()}), "there is no table"),
    ],
)
def test_tables(answer: TablesAnswer, why: str) -> None:
    assert why in tables_reason(answer)
    assert bool(tables_reason(answer)) == bool(why)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"loan_id": "LO9"}, "loan_id: 'LO9' is not one of the given ids"),
        ({"card": "CA7"}, "card: 'CA7' is no key of cards"),
        ({"days_left": 29}, "days_left: Input should be less than or equal to 28, given '29'"),
        ({"days_left": -1}, "days_left: Input should be greater than or equal to 0, given '-1'"),
    ],
)
def test_records(change: dict[str, object], why: str) -> None:
    assert record_reason(TableChecks(LOAN_TABLE), RIGHT | change, IDS) == why


def test_a_records_model_takes_no_other_type() -> None:
    model = record_model(LOAN_TABLE)
    assert model.model_validate(RIGHT).model_dump(by_alias=True) == RIGHT
    for wrong in ({"days_left": "10"}, {"more": 1}, {"title": None}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model.model_validate(RIGHT | wrong)


@given(st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True), unique=True, max_size=12))
def test_given_ids_are_unique_over_all_tables(names: list[str]) -> None:
    tables = [LOAN_TABLE.model_copy(update={"name": name}) for name in names]
    ids = [each for kept in given_ids(tables, 3).values() for each in kept]
    assert len(ids) == len(set(ids)) == 3 * len(names)


TOOLKITS = {
    "does not load": ("def find_card(db", "SyntaxError"),
    "never ends": (BRANCH + "\nimport os\nos._exit(3)\n", "library_desk: "),
    "a tool is missing": (
        BRANCH.replace("def list_loans", "def lists"),
        "no function 'list_loans'",
    ),
    "a tool fails": (BRANCH.replace('["card"]', '["karte"]'), "list_loans.*failed: KeyError"),
    "a tool refuses its example": (BRANCH.replace('["holder"]', '["kind"]'), "refused: no such"),
    "a READ changes": (
        BRANCH.replace("return card\n", 'card["kind"] = "x"; return card\n'),
        "find_card.*changed cards.kind",
    ),
}


@pytest.mark.parametrize("name", TOOLKITS)
async def test_toolkits_that_are_wrong_are_told_why(name: str) -> None:
    code, why = TOOLKITS[name]
    found = await toolkit_reason(DOMAIN.model_copy(update={"toolkit": code}), EXAMPLES)
    assert re.search(why, found), found


async def test_a_right_toolkit_and_policy_pass() -> None:
    assert await toolkit_reason(DOMAIN, EXAMPLES) == ""
    policy = PolicyAnswer.model_validate(POLICY)
    found = DOMAIN.model_copy(update={"toolkit": BRANCH + policy.code})
    assert await policy_reason(found, policy.rules, EXAMPLES) == ""
    missing = await policy_reason(DOMAIN, policy.rules, EXAMPLES)
    assert missing == "at_most_28: missing: the toolkit has no function 'no_long_loan'"


def task(*actions: Action, **more: Any) -> DomainTask:
    world = DomainSpec(domain=DOMAIN.domain_id, scenario=Scenario(reason="r"), actions=actions)
    plain = DomainTask(family=DOMAIN.name, template="t", split="train", world=world)
    return changed_task(plain, **more)


RENEW = Action(name="renew_loan", arguments={"loan_id": "LO0001", "days": 2})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (task(), "there is no golden call"),
        (task(Action(name="fly")), "there is no tool 'fly'"),
        (task(Action(name="renew_loan", arguments={"days": "2"})), "loan_id is missing"),
        (task(RENEW.model_copy(update={"arguments": {"loan_id": "X"}})), "refused: no such loan"),
        (task(RENEW, communicate=("99",)), "'99' is in no result"),
        (task(RENEW, rules=("none",)), "there is no rule 'none'"),
        (task(RENEW, forbidden=(RENEW,)), "no rule forbids renew_loan"),
        (task(Action(name="find_card", arguments={"holder": "Ida Moor"})), "no-op would solve it"),
    ],
)
async def test_tasks_that_are_wrong_are_told_why(wrong: DomainTask, why: str) -> None:
    assert why in (await replay_task(DOMAIN, wrong)).reason


async def test_a_right_task_has_its_state_and_entities() -> None:
    found = await replay_task(DOMAIN, task(RENEW, communicate=("12",)))
    assert (found.reason, found.entities) == ("", ("loans/LO0001", "cards/CA0001"))
    assert found.expected


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=3), max_size=8))
def test_no_entity_is_in_two_splits(groups: list[list[str]]) -> None:
    tasks = [
        task(Action(name="a", arguments={"n": n}), sources=tuple(f"t/{e}" for e in each))
        for n, each in enumerate(groups)
    ]
    splits: dict[str, set[str]] = {}
    for each in split_apart(tasks):
        for entity in each.sources:
            splits.setdefault(entity, set()).add(each.split)
    assert all(len(found) == 1 for found in splits.values())


def test_prompts_have_a_version_and_their_places(tmp_path: Path) -> None:
    for prompt in read_prompts().values():
        assert prompt.version and len(prompt.hash) == 16
    (tmp_path / "a.md").write_text("version: 3\n\nAbout {{topic}}.\n")
    prompt = read_prompts(tmp_path)["a"]
    assert (prompt.version, prompt.render(topic="x")) == ("3", "About x.")
    with pytest.raises(UsageError, match="prompt a: places and values differ: topic"):
        prompt.render()
    (tmp_path / "b.md").write_text("no version")
    with pytest.raises(UsageError, match=r"b\.md:1: a prompt begins with"):
        read_prompts(tmp_path)


def test_a_strict_schema_requires_all_and_allows_no_more() -> None:
    schema = strict_schema(TablesAnswer)
    field = schema["$defs"]["FieldSpec"]
    assert set(field["required"]) == set(LOANS[0])
    assert field["additionalProperties"] is False
    assert "default" not in field["properties"]["about"]


def test_arguments_keep_their_types() -> None:
    given_call = call("t", a=True, b=1, c=1.5, d="1", e=["x"], f=None)
    tool = ToolkitAnswer.model_validate({"code": "", "tools": TOOLS}).tools[0]
    found = type(tool).model_validate(
        {"spec": TOOLS[0]["spec"], "example": given_call["arguments"]}
    )
    values = {"a": True, "b": 1, "c": 1.5, "d": "1", "e": ["x"]}
    assert found.action.arguments == values
    assert type(found.action.arguments["a"]) is bool
