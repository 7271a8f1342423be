"""Tests of tau2's mock domain with calls: correct attempts reach the gold outcome, wrong ones do
not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.conftest import load
from tutti.tasks.benchmarks import BenchmarkError
from tutti.tasks.benchmarks.tau2.dialogue import ENDED
from tutti.tasks.benchmarks.tau2.domain import Domain, Tau2Task, read_domain
from tutti.tasks.benchmarks.tau2.mock import MOCK
from tutti.tasks.benchmarks.tau2.world import Session, gold_outcome
from tutti.tasks.benchmarks.world import CallRefused
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission

AGENT, USER = "assistant", "user"
DB = {
    "tasks": {"task_1": {"task_id": "task_1", "title": "a", "status": "pending"}},
    "users": {"user_1": {"user_id": "user_1", "tasks": ["task_1"]}},
}


def made_up(**parts: Any) -> tuple[Domain, Tau2Task]:
    """Return a mock domain with one task."""
    values: dict[str, Any] = {
        "id": "t",
        "scenario": "s",
        "ticket": "",
        "initial_state": {},
        "actions": (),
        "communicate": (),
        "nl_assertions": (),
        "env_assertions": (),
        "rewards": ("DB",),
        "documents": (),
    }
    task = Tau2Task(**(values | parts))
    return Domain("mock", (task,), "", {}, DB, {}, frozenset(), {}), task


async def score(target: dict[str, Any], session: Session, said: str = "") -> float:
    """Return the score of the session's outcome after the customer has ended the dialogue."""
    attempted = Submission(None, state=session.outcome(said) | {ENDED: True})
    return (await SCORERS["state"].score(target, attempted, ScoringResources())).value


async def test_gold_actions_of_every_mock_task(data: Path) -> None:
    """For all ten tasks, the gold actions, with what the assertions require of user and agent,
    score 1.0; doing nothing scores 0.0 wherever an action was required."""
    domain = read_domain(data / "tau2" / "mock")
    items = {item.key: item for item in load("tau2-mock", data / "tau2")}
    extra = {
        "update_task_with_user_tools": (
            USER,
            "dismiss_notification",
            {"notification_id": "notif_1"},
        ),
        "update_task_with_history_and_env_assertions": (
            AGENT,
            "update_task_status",
            {"task_id": "task_2", "status": "completed"},
        ),
    }
    nothing = {}
    for task in domain.tasks:
        target = dict(items[task.id].target)
        idle, session = Session(domain, MOCK, task), Session(domain, MOCK, task)
        for action in task.actions:
            session.call(action["requestor"], action["name"], action["arguments"])
        if task.id in extra:
            session.call(*extra[task.id])
        said = " ".join(task.communicate)
        assert await score(target, session, said) == 1.0, task.id
        nothing[task.id] = await score(target, idle, said)
    # Its reward wants a compliment only, which a judge hears.
    assert [name for name, value in nothing.items() if value] == ["create_task_1_nl_eval"]


async def test_another_way_to_the_same_state_is_right() -> None:
    """Only the final state counts: read-only calls, failed calls and calls that undo each other
    have no effect."""
    gold = {"name": "update_task_status", "arguments": {"task_id": "task_1", "status": "completed"}}
    domain, task = made_up(actions=({"action_id": "a", "requestor": AGENT, **gold},))
    target = {"state": gold_outcome(domain, MOCK, task) | {ENDED: True}}
    session = Session(domain, MOCK, task)
    session.call(AGENT, "get_users", {})
    with pytest.raises(CallRefused, match="no task 'task_9'"):
        session.call(AGENT, "update_task_status", {"task_id": "task_9", "status": "completed"})
    assert await score(target, session) == 0.0
    session.call(AGENT, gold["name"], gold["arguments"])  # type: ignore[arg-type]
    assert await score(target, session) == 1.0
    session.call(AGENT, "create_task", {"user_id": "user_1", "title": "more"})
    assert await score(target, session) == 0.0


def test_sessions_share_nothing() -> None:
    """One attempt's writes appear neither in another attempt's database nor in the domain's."""
    domain, task = made_up()
    one, two = Session(domain, MOCK, task), Session(domain, MOCK, task)
    one.call(AGENT, "create_task", {"user_id": "user_1", "title": "x"})
    assert len(one.state.db["tasks"]) == 2
    assert len(two.state.db["tasks"]) == len(domain.db["tasks"]) == 1


@given(
    st.sampled_from([*MOCK.agent, "rm", ""]),
    st.dictionaries(
        st.sampled_from(["user_id", "title", "task_id", "status", "summary", "self", "state"]),
        st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just([{}]), st.just("task_1")),
    ),
)
def test_any_call_is_answered_or_refused(name: str, arguments: dict[str, Any]) -> None:
    """The session continues after any call, and a refused call changes nothing."""
    domain, task = made_up()
    session = Session(domain, MOCK, task)
    try:
        session.call(AGENT, name, arguments)
    except CallRefused:
        assert session.outcome() == Session(domain, MOCK, task).outcome()


def test_the_user_s_tools_are_not_the_agent_s() -> None:
    """Each side has its own tools, and neither has those that only tasks call."""
    domain, task = made_up()
    session = Session(domain, MOCK, task)
    for side, name in ((AGENT, "check_notifications"), (USER, "get_users")):
        with pytest.raises(CallRefused, match="there is no tool"):
            session.call(side, name, {})
    with pytest.raises(CallRefused, match="there is no tool"):
        session.call(AGENT, "assert_task_status", {"task_id": "task_1", "expected_status": "x"})
    assert session.call(USER, "check_notifications", {}) == "[]"


def test_schemas_come_from_the_functions() -> None:
    """The schemas have the names, required arguments and descriptions of the agent's tools; the
    state is no argument."""
    schemas = {one["function"]["name"]: one["function"] for one in MOCK.schemas(AGENT)}
    assert list(schemas) == list(MOCK.agent)
    parameters = schemas["create_task"]["parameters"]
    assert list(parameters["properties"]) == ["user_id", "title", "description"]
    assert parameters["required"] == ["user_id", "title"]
    assert schemas["create_task"]["description"] == "Make a new task for a user."


@pytest.mark.parametrize(
    ("rewards", "parts"),
    [
        (("DB",), {"db"}),
        (("ENV_ASSERTION", "NL_ASSERTION"), {"assertions"}),
        (("DB", "COMMUNICATE", "ACTION"), {"db", "communicated", "actions"}),
    ],
)
def test_the_outcome_holds_what_the_reward_asks_for(
    rewards: tuple[str, ...], parts: set[str]
) -> None:
    """A part of the reward that the task does not list cannot fail an attempt."""
    domain, task = made_up(rewards=rewards)
    assert set(Session(domain, MOCK, task).outcome()) == parts


def test_actions_count_by_the_arguments_that_are_named() -> None:
    """An empty compare_args of a gold action means that the name alone counts."""
    action: dict[str, Any] = {"action_id": "a", "requestor": AGENT}
    action |= {"name": "transfer_to_human_agents"}
    action |= {"arguments": {"summary": "gold"}, "compare_args": []}
    domain, task = made_up(actions=(action,), rewards=("ACTION",))
    session = Session(domain, MOCK, task)
    assert session.outcome() == {"actions": [False]}
    session.call(AGENT, "transfer_to_human_agents", {"summary": "other words"})
    assert session.outcome() == {"actions": [True]}


def test_what_was_said_is_looked_for_as_tau2_does() -> None:
    """The search ignores case and commas in numbers."""
    domain, task = made_up(communicate=("1234", "Refund"), rewards=("COMMUNICATE",))
    session = Session(domain, MOCK, task)
    assert session.outcome("Your refund is $1,234.") == {"communicated": [True, True]}
    assert session.outcome("nothing") == {"communicated": [False, False]}


def test_data_and_tools_that_do_not_fit() -> None:
    """A gold action or a set-up that the tools refuse is reported as an error of the benchmark."""
    action = {"action_id": "a7", "requestor": AGENT, "name": "fly", "arguments": {}}
    domain, task = made_up(actions=(action,))
    with pytest.raises(BenchmarkError, match="gold action a7: there is no tool 'fly'"):
        gold_outcome(domain, MOCK, task)
    start = {"initialization_actions": [{"func_name": "fly", "arguments": {}}]}
    with pytest.raises(BenchmarkError, match="its set-up: there is no tool 'fly'"):
        Session(domain, MOCK, made_up(initial_state=start)[1])
