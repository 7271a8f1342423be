"""Tests of the decision rules of single gates that their examples do not cover."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench.synthesis.task_defects import BENCHMARK_TEXTS
from tests.synthesis.example import EXAMPLE, EXTENDED, LOOKED_UP, varied
from tests.synthesis.gating.lending import context_of, replayed
from tutti import storage
from tutti.tasks.synthesis.domains import (
    DOMAIN_TASK,
    Action,
    Domain,
    DomainTask,
    Parameter,
    changed_task,
)
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.contamination import benchmark_questions, copy_verdict
from tutti.tasks.task_sets import task_line


async def reason(
    gate: str, task: DomainTask, domain: Domain = EXAMPLE, benchmarks: Sequence[str] = ()
) -> str:
    """Return the reason why a gate rejects a task, or an empty string."""
    async with context_of(domain, benchmarks) as context:
        await replayed(context, [task])
        (found,) = await GATES[gate].judge([task], context)
        return found.reason


def told(task: DomainTask, **changes: str) -> DomainTask:
    return changed_task(task, scenario=task.world.scenario.model_copy(update=changes))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Your name is {name}.", True),
        ("Your order is None.", True),
        ("TODO", True),
        ("None of your books is late. None is lost.", False),
        ("You paid {50} and <3 it.", False),
    ],
)
async def test_placeholders_are_refused_and_plain_english_is_not(text: str, left: bool) -> None:
    assert ("left in the text" in await reason("parses", told(EXTENDED, known=text))) == left


async def test_a_placeholder_that_is_a_value_of_the_domain_is_none() -> None:
    loans = {**EXAMPLE.records["loans"]}
    loans["L2"] = {**loans["L2"], "title": "When is it None"}
    domain = varied(EXAMPLE, records={**EXAMPLE.records, "loans": loans})
    assert await reason("parses", told(EXTENDED, known="The title has None."), domain) == ""


@pytest.mark.parametrize(
    ("fact", "about", "leaks"),
    [
        ("1,200", "At most 1200.00 a year.", True),
        ("1200", "At most 12001 a year.", False),
        ("30", "At most 30 days.", False),
        ("30", "The answer is 30.", True),
        ("150", "At most 150 days.", False),
        ("12.50", "A fee of 12.5 is due.", True),
        ("yes", "Say yes or no.", False),
        ("Tides", "Such as Tides.", True),
        ("Tides", "Such as Tidesong.", False),
    ],
)
async def test_which_answers_leak(fact: str, about: str, leaks: bool) -> None:
    rule = EXAMPLE.rules[1].model_copy(update={"text": about})
    task = changed_task(LOOKED_UP, communicate=(fact,))
    assert bool(await reason("leak", task, varied(EXAMPLE, rules=(rule,)))) == leaks


@pytest.mark.parametrize(("key", "leaks"), [("L2", True), ("by_hand", False)])
async def test_a_key_that_names_a_kind_is_no_leak(key: str, leaks: bool) -> None:
    loans = {**EXAMPLE.records["loans"]}
    loans[key] = {**loans.pop("L2"), "loan_id": key}
    member = {**EXAMPLE.records["members"]["M2"], "loans": [key]}
    records = {"members": {**EXAMPLE.records["members"], "M2": member}, "loans": loans}
    rule = EXAMPLE.rules[1].model_copy(update={"text": f"Some have {key}."})
    look = Action(name="get_loan", arguments={"loan_id": key})
    task = changed_task(LOOKED_UP, actions=(LOOKED_UP.world.actions[0], look))
    why = await reason("leak", task, varied(EXAMPLE, records=records, rules=(rule,)))
    assert ("golden call needs" in why) == leaks


async def test_words_that_records_share_are_no_leak() -> None:
    title = EXAMPLE.tables[1].fields[2].model_copy(update={"one_of": ("Tides", "Harbours")})
    fields = (*EXAMPLE.tables[1].fields[:2], title, *EXAMPLE.tables[1].fields[3:])
    loans = EXAMPLE.tables[1].model_copy(update={"fields": fields})
    rule = EXAMPLE.rules[1].model_copy(update={"text": "Books are Tides or Harbours."})
    domain = varied(EXAMPLE, tables=(EXAMPLE.tables[0], loans), rules=(rule,))
    assert await reason("leak", LOOKED_UP, domain) == ""


@pytest.mark.parametrize(
    ("reason_told", "given"),
    [
        ("You need your book for 7 more days.", True),
        ("You need your book for seven more days.", True),
        ("You need your book for a 7-day trip.", True),
        ("You need your book for 17 more days.", False),
        ("You need your book L7 for longer.", False),
    ],
)
async def test_numbers_are_given_by_value(reason_told: str, given: bool) -> None:
    why = await reason("suffices", told(EXTENDED, reason=reason_told))
    assert (why == "") == given
    if not given:
        assert why.startswith("days 7 of call 2, extend_loan")


async def test_a_name_may_be_put_together() -> None:
    named = told(EXTENDED, known="Your first name is Ada, your last name is Long.")
    assert await reason("suffices", named) == ""


@pytest.mark.parametrize(
    ("title", "given"),
    [
        ("Ada Long has the book for 7 more days", True),
        ("Ada Long has the book for 3 more days", True),  # up to twenty a writer may count
        ("Ada Long has the book for 73.25 more days", False),
        ("sum(7, 812, 7, 7, 7, 7)", False),
    ],
)
async def test_an_agents_own_text_holds_no_number_that_nobody_gave(title: str, given: bool) -> None:
    """Half of the words suffice, but not half of the numbers, because numbers are used in
    computations."""
    find, look, extend = EXAMPLE.tools
    note = Parameter(name="note", kind="text", about="what for", optional=True)
    tool = extend.model_copy(update={"parameters": (*extend.parameters, note)})
    code = EXAMPLE.toolkit.replace("loan_id, days):", "loan_id, days, note=None):")
    call = EXTENDED.world.actions[1].model_copy(
        update={"arguments": {**EXTENDED.world.actions[1].arguments, "note": title}}
    )
    task = changed_task(EXTENDED, actions=(EXTENDED.world.actions[0], call))
    domain = varied(EXAMPLE, tools=(find, look, tool), toolkit=code)
    assert (await reason("suffices", task, domain) == "") == given


async def test_gates_that_read_replays_say_when_there_is_none() -> None:
    async with context_of(EXAMPLE) as context:
        for name in ("suffices", "described"):
            with pytest.raises(LookupError, match="executes"):
                await GATES[name].judge([EXTENDED], context)


@pytest.mark.parametrize(
    ("kind", "about", "lies"),
    [
        ("WRITE", "Look up a loan.", True),
        ("WRITE", "Look up a loan and extend it.", False),
        ("WRITE", "This tool gets a loan.", True),
        ("READ", "Cancel a loan.", True),
        ("READ", "Find the loans that one may cancel.", False),
        ("READ", "Look up a loan by its `loan_id`.", False),
        ("READ", "Look up a loan by its `colour`.", True),
    ],
)
async def test_verbs_and_names_of_descriptions(kind: str, about: str, lies: bool) -> None:
    place = {"READ": 1, "WRITE": 2}[kind]
    tools = list(EXAMPLE.tools)
    tools[place] = tools[place].model_copy(update={"about": about})
    task = EXTENDED if kind == "WRITE" else LOOKED_UP
    assert bool(await reason("described", task, varied(EXAMPLE, tools=tuple(tools)))) == lies


async def test_a_tool_that_is_not_offered_rejects_no_task() -> None:
    tools = (*EXAMPLE.tools[:2], EXAMPLE.tools[2].model_copy(update={"about": "Look it up."}))
    task = changed_task(LOOKED_UP, tools=("find_member", "get_loan"))
    assert await reason("described", task, varied(EXAMPLE, tools=tools)) == ""


BENCHMARKS = [
    f"Item {number}: {first} has {number} {things} and gives {number // 2} of them to {second}; "
    f"how many {things} are left in the {place}?"
    for number in range(20, 60)
    for first, second, things, place in (
        ("Tom", "Ann", "apples", "basket"),
        ("Lea", "Kim", "marbles", "drawer"),
        ("Raj", "Mia", "stamps", "album"),
    )
]


def test_runs_of_words_are_found_in_long_and_short_texts() -> None:
    known = [*BENCHMARKS, "How tall is the tower of Pisa?"]
    part = " ".join(BENCHMARKS[7].split()[3:16])
    assert not copy_verdict(f"You wonder. {part} And so on.", known).passed
    assert copy_verdict(
        f"You wonder. {' '.join(part.split()[:9])} and that is it for now.", known
    ).passed
    assert not copy_verdict(
        "You ask: how tall is the tower of Pisa? You are in a hurry.", known
    ).passed
    assert not copy_verdict("gives 10 of them to Ann; how many apples are left", known).passed
    assert copy_verdict("how many apples are", known).passed


def test_a_reworded_question_is_near_and_an_unrelated_one_is_not() -> None:
    known = [*BENCHMARKS, *BENCHMARK_TEXTS]
    question = BENCHMARK_TEXTS[0].replace("sold clips", "gave clips").replace("How", "So how")
    near = copy_verdict(question.replace("half as many", "half").replace("altogether ", ""), known)
    assert not near.passed and near.measured is not None and near.measured >= 0.75
    for task in (EXTENDED, LOOKED_UP):
        assert copy_verdict(task.world.scenario.text, known).passed


def test_the_questions_of_the_store(tmp_path: Any) -> None:
    """The questions are those of benchmarks and the standard library, but not of domains, also if
    one was measured."""
    home = storage.Home(tmp_path)
    made = {"task_set_id": "task_set:1", "task_id": "task:d", "template": "extend"}
    rows: list[dict[str, Any]] = [
        made | {"question": "domain?"},
        {"task_set_id": "task_set:2", "task_id": "task:d", "slots": '{"id": "task:d"}'}
        | {"question": "domain, measured?"},
        {"task_set_id": "task_set:3", "task_id": "b", "slots": '{"id": "7"}', "question": "b?"},
        {"task_set_id": "task_set:4", "task_id": "c", "slots": "{}", "question": "c?"},
        {"task_set_id": "task_set:5", "task_id": "e", "question": "e?"},
    ]
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"tasks": rows})
    assert benchmark_questions(home) == ["b?", "c?", "e?"]


async def test_a_null_stands_for_an_optional_argument_only() -> None:
    tool = EXAMPLE.tools[1]
    more = tool.parameters[0].model_copy(update={"name": "note", "optional": True})
    code = EXAMPLE.toolkit.replace("get_loan(db, loan_id):", "get_loan(db, loan_id, note=None):")
    changed = tool.model_copy(update={"parameters": (*tool.parameters, more)})
    domain = varied(EXAMPLE, toolkit=code, tools=(EXAMPLE.tools[0], changed, EXAMPLE.tools[2]))
    for given, fine in (({"loan_id": "L2", "note": None}, True), ({"loan_id": None}, False)):
        action = Action(name="get_loan", arguments=given)
        task = changed_task(LOOKED_UP, actions=(LOOKED_UP.world.actions[0], action))
        assert (await reason("parses", task, domain) == "") == fine


async def test_the_policy_gate_takes_what_the_replay_gate_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task with other forbidden calls has the same id and is checked again."""
    allowed = Action(name="extend_loan", arguments={"loan_id": "L1", "days": 3})
    other = changed_task(EXTENDED, forbidden=(allowed,))
    sent: list[int] = []
    async with context_of(EXAMPLE) as context:
        await replayed(context, [EXTENDED])
        assert all(each.passed for each in await GATES["replay"].judge([EXTENDED], context))
        request = context.toolkit.request

        async def counted(operations: Sequence[Sequence[Any]]) -> list[Any]:
            sent.append(len(operations))
            return await request(operations)

        monkeypatch.setattr(context.toolkit, "request", counted)
        (found,) = await GATES["policy"].judge([EXTENDED], context)
        assert found.passed and sum(sent) == 0
        assert other.task_id == EXTENDED.task_id
        first, second = await GATES["policy"].judge([EXTENDED, other], context)
        assert first.passed and second.reason.startswith("no rule forbids extend_loan(")
        assert sum(sent) > 0
        context.forget(EXTENDED)
        assert not context.ruled and not context.replays


def test_a_copy_of_a_task_has_an_id_of_its_own() -> None:
    """The id is computed once per task and is not copied with the other fields."""
    first = EXTENDED.task_id
    assert changed_task(EXTENDED).task_id == first
    assert changed_task(EXTENDED, communicate=("22",)).task_id != first
    assert changed_task(EXTENDED, expected="x") != EXTENDED
    assert DOMAIN_TASK.validate_json(task_line(EXTENDED)) == EXTENDED
