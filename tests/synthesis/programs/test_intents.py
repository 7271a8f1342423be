"""Tests of turning intents into tasks: grouped separately, numbered, with drawn tools; amounts have
one format."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.synthesis.example import EXAMPLE
from tests.synthesis.programs.databases import made
from tutti.tasks.synthesis.domains import Action
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.base.intents import (
    Caller,
    Composer,
    Intent,
    is_plain,
    listed,
    money,
)
from tutti.tasks.synthesis.programs.base.program import split_of


def intent(name: str, loan: str, communicate: str = "tides") -> Intent:
    """Return an intent about a loan of the example domain."""
    call = Action(name="get_loan", arguments={"loan_id": loan})
    far = Action(name="extend_loan", arguments={"loan_id": loan, "days": 90})
    return Intent(
        name=name,
        reason=f"You want {name} for {loan}.",
        actions=(call,),
        touches=frozenset((loan,)),
        slots={"loan": loan},
        rules=("longest",),
        forbidden=(far,),
        facts=(communicate,),
    )


def compose(intents: list[Intent], key: str = "M1", steps: int = 1, tools: int = 1) -> list[str]:
    """Return the reasons of the tasks made from the intents of a member."""

    def caller(key: str, rng: Random) -> Caller:
        find = Action(name="find_member", arguments={"name": "Ada Long"})
        return Caller(f"members/{key}", "You are Ada Long.", find, {"name": "Ada Long"})

    knobs = {"steps": steps, "tools": tools, "distractors": 0}
    composer = Composer(EXAMPLE, Random(1), knobs, frozenset({"late"}), caller)
    return sorted(task.world.scenario.reason for task in composer.tasks({key: intents}))


def test_one_thing_is_asked_once() -> None:
    assert compose([intent("title", "L1"), intent("title", "L1"), intent("title", "L2")]) == [
        "You want title for L1.",
        "You want title for L2.",
    ]


def test_a_group_has_distinct_templates_and_records() -> None:
    alike = [intent("title", "L1"), intent("title", "L2"), intent("days", "L1")]
    found = compose(alike, steps=2)
    assert found
    assert all("title for L2" in each and "days for L1" in each for each in found)
    assert all(each.startswith("The first matter: ") for each in found)


def test_what_the_scenario_or_the_policy_tells_is_no_fact() -> None:
    assert compose([intent("title", "L1", "want title")]) == []
    assert compose([intent("title", "L1", "30 days")]) == []


def test_held_out_templates_are_only_tested() -> None:
    keys = [f"M{n}" for n in range(60)]
    kept = [key for key in keys if compose([intent("late", "L1")], key)]
    assert kept == [key for key in keys if split_of(f"members/{key}") == "test"] != []


@given(st.integers(-10_000, 1_000_000))
def test_a_plain_amount_is_written_one_way(cents: int) -> None:
    amount = cents / 100
    assert is_plain(amount) == (cents > 0 and cents % 10 != 0)
    assert not is_plain(amount) or json.dumps(amount) == money(amount)


def test_lists_are_read_as_in_a_sentence() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize("name", ("retail", "bank"))
def test_a_task_offers_as_many_tools_as_told_where_it_needs_no_more(name: str) -> None:
    domain, tasks = made(PROGRAMS[name], 1, customers=20, tools=7)
    order = [tool.name for tool in domain.tools]
    for task in tasks:
        assert len(task.world.tools) >= 7 and list(task.world.tools) == sorted(
            task.world.tools, key=order.index
        )
        assert task.difficulty["tools"] == len(task.world.tools)
    assert len({task.world.tools for task in tasks if len(task.world.tools) == 7}) > 20
