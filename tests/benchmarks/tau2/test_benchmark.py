"""Tests of tau2: every domain's tasks, databases, policies and documents parse, and the knowledge
can be searched."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load
from tutti.tasks.benchmarks import BadRow, SourceMissing
from tutti.tasks.benchmarks.tau2.domain import read_domain

TASK = {
    "id": "t1",
    "user_scenario": {"persona": None, "instructions": "You want a task."},
    "evaluation_criteria": {
        "actions": [{"action_id": "a", "name": "make", "arguments": {"title": "x"}}],
        "reward_basis": ["DB"],
    },
}


@pytest.mark.parametrize(
    ("name", "tasks", "databases", "policy"),
    [
        ("airline", 50, (), True),
        ("banking_knowledge", 97, ("db",), False),
        ("mock", 10, ("db", "user_db"), True),
        ("retail", 114, ("db",), True),
        ("telecom", 20, ("db", "user_db"), True),
    ],
)
def test_every_domain_parses(
    data: Path, name: str, tasks: int, databases: tuple[str, ...], policy: bool
) -> None:
    """All tasks, databases and policies of the folder parse."""
    domain = read_domain(data / "tau2" / name)
    assert len(domain.tasks) == tasks
    assert tuple(n for n, d in (("db", domain.db), ("user_db", domain.user_db)) if d) == databases
    assert bool(domain.policy) == policy
    assert all(task.scenario.strip() and task.rewards for task in domain.tasks)
    assert sum(len(task.actions) for task in domain.tasks) > 0


def test_policies_and_manuals(data: Path) -> None:
    """Telecom's policy consists of three files, and the agent gets all of them."""
    domain = read_domain(data / "tau2" / "telecom")
    assert sorted(domain.manuals) == ["tech_support_manual.md", "tech_support_workflow.md"]
    item = load("tau2-telecom", data / "tau2")[0]
    assert domain.policy.strip() in item.inputs["policy"]
    assert all(manual.strip() in item.inputs["policy"] for manual in domain.manuals.values())


def test_every_document_that_a_task_needs_is_there(data: Path) -> None:
    domain = read_domain(data / "tau2" / "banking_knowledge")
    assert len(domain.documents) == 698
    needed = {name for task in domain.tasks for name in task.documents}
    assert needed <= domain.documents and len(needed) > 100


def write_domain(folder: Path, tasks: Any, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.json").write_text(json.dumps(tasks))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def changed(**criteria: Any) -> dict[str, Any]:
    """Return the task with other criteria."""
    return TASK | {"evaluation_criteria": {**TASK["evaluation_criteria"], **criteria}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ({"id": "t"}, "user_scenario"),
        (TASK | {"user_scenario": {"instructions": {"domain": "x"}}}, "reason_for_call"),
        (changed(reward_basis=["LUCK"]), "evaluation_criteria.reward_basis"),
        (changed(actions=[{"name": "make"}]), "evaluation_criteria.actions.0.action_id"),
        (changed(actions="none"), "evaluation_criteria.actions"),
        (
            changed(actions=[{"action_id": 1, "name": "m", "arguments": {}, "requestor": "cat"}]),
            "requestor",
        ),
        (
            changed(env_assertions=[{"func_name": "f", "arguments": {}, "assert_value": 1}]),
            "assert",
        ),
        (changed(communicate_info=[3]), "communicate_info.0"),
        (
            TASK | {"initial_state": {"message_history": [{"role": "dog"}]}},
            "message_history.0.role",
        ),
        (TASK | {"initial_state": {"initialization_actions": [{}]}}, "func_name"),
        (TASK | {"initial_state": {"initialization_data": {"agent_data": 3}}}, "agent_data"),
        ("t1", "not an object"),
    ],
)
def test_a_task_that_is_wrong(tmp_path: Path, task: Any, field: str) -> None:
    """The error in the second task names the file, the task's number and the field."""
    folder = write_domain(tmp_path, [TASK, task])
    with pytest.raises(BadRow, match=rf"tasks\.json:2: .*{field}"):
        read_domain(folder)


def test_files_that_do_not_fit_the_tasks(tmp_path: Path) -> None:
    """Errors are raised for a split with an unknown task, an empty task list and a database that is
    no object."""
    with pytest.raises(BadRow, match="no such tasks: t9"):
        read_domain(write_domain(tmp_path / "a", [TASK], split_tasks={"test": ["t9"]}))
    with pytest.raises(BadRow, match=r"db\.json:1: .*not an object"):
        read_domain(write_domain(tmp_path / "b", [TASK], db=[1]))
    with pytest.raises(SourceMissing, match=r"none of tasks\.json"):
        read_domain(tmp_path)


def test_a_domain_s_folder_cannot_be_taken_for_another_s(tmp_path: Path) -> None:
    """The path is the folder of all domains, so retail's tasks are never read as airline's."""
    write_domain(tmp_path / "retail", [TASK])
    assert [item.key for item in load("tau2-retail", tmp_path)] == ["t1"]
    with pytest.raises(SourceMissing):
        load("tau2-airline", tmp_path)
    with pytest.raises(SourceMissing):
        load("tau2-airline", tmp_path / "retail")


def test_the_target_separates_agent_and_user(tmp_path: Path) -> None:
    """Actions of the user's side are not calls of the agent."""
    actions = [
        {"action_id": "a", "name": "make", "arguments": {}},
        {"action_id": "b", "name": "reboot", "arguments": {}, "requestor": "user"},
    ]
    write_domain(tmp_path / "retail", [changed(actions=actions)])
    (item,) = load("tau2-retail", tmp_path)
    assert item.target["calls"] == [{"name": "make", "arguments": {}}]
    assert len(item.target["actions"]) == 2
