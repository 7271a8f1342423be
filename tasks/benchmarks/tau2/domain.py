"""A domain of tau2-bench in its publisher's layout: tasks, policy, databases, documents.

Every field of a task that the evaluation reads is checked; the others are unchanged.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.errors import BadRow, SourceMissing
from tutti.tasks.benchmarks.rows import Row, as_row, read_json

TASKS = ("tasks.json", "tasks_small.json")
POLICIES = ("policy.md", "main_policy.md")
REWARDS = ("DB", "ENV_ASSERTION", "NL_ASSERTION", "ACTION", "COMMUNICATE")
DEFAULT_REWARDS = ("DB", "COMMUNICATE")
SIDES = ("assistant", "user")


@dataclass(frozen=True)
class Tau2Task:
    """One task: the caller and the reason, the initial state, and the conditions at the end."""

    id: str
    scenario: str
    """The simulated user's instructions, as one text."""
    ticket: str
    initial_state: Mapping[str, Any]
    actions: tuple[Mapping[str, Any], ...]
    """One trajectory that ends in the right state: action_id, requestor, name, arguments, and
    compare_args if only those are compared."""
    communicate: tuple[str, ...]
    nl_assertions: tuple[str, ...]
    env_assertions: tuple[Mapping[str, Any], ...]
    rewards: tuple[str, ...]
    """The factors of the reward, among `REWARDS`."""
    documents: tuple[str, ...]


@dataclass(frozen=True)
class Domain:
    """One domain."""

    name: str
    tasks: tuple[Tau2Task, ...]
    policy: str
    """The agent's policy; empty if the folder has none."""
    manuals: Mapping[str, str]
    """Further texts that belong to the policy, by file name."""
    db: Mapping[str, Any]
    """The agent's initial database; empty if the folder has none."""
    user_db: Mapping[str, Any]
    documents: frozenset[str]
    """The ids of its pages of knowledge."""
    splits: Mapping[str, tuple[str, ...]]


def read_domain(folder: Path) -> Domain:
    """Read the domain in `folder`. Raises SourceMissing without tasks, BadRow."""
    file = next((folder / name for name in TASKS if (folder / name).is_file()), None)
    if file is None:
        raise SourceMissing(f"{folder} holds none of {', '.join(TASKS)}")
    values = read_json(file)
    if not isinstance(values, list):
        raise BadRow(file, None, "", "not a list of tasks")
    tasks = tuple(_task(as_row(file, number, value)) for number, value in enumerate(values, 1))
    policy = next((folder / name for name in POLICIES if (folder / name).is_file()), None)
    pages = sorted((folder / "documents").glob("*.json"))
    documents = frozenset(as_row(page, 1, read_json(page)).text("id") for page in pages)
    for number, task in enumerate(tasks, 1):
        unknown = [name for name in task.documents if name not in documents]
        if documents and unknown:
            raise BadRow(file, number, "required_documents", f"no such documents: {unknown}")
    return Domain(
        name=folder.name,
        tasks=tasks,
        policy=policy.read_text(encoding="utf-8") if policy else "",
        manuals={
            path.name: path.read_text(encoding="utf-8")
            for path in sorted(folder.glob("*.md"))
            if path != policy
        },
        db=_database(folder, "db"),
        user_db=_database(folder, "user_db"),
        documents=documents,
        splits=_splits(folder / "split_tasks.json", {task.id for task in tasks}),
    )


def _task(row: Row) -> Tau2Task:
    task_id = row.name("id")
    criteria = row.object_or("evaluation_criteria")
    rewards = criteria.texts_or("reward_basis")
    for reward in rewards:
        if reward not in REWARDS:
            criteria.bad("reward_basis", f"{reward!r} is none of {', '.join(REWARDS)}")
    return Tau2Task(
        id=task_id,
        scenario=_scenario(row.object("user_scenario")),
        ticket=row.text_or("", "ticket"),
        initial_state=_initial_state(row.object_or("initial_state")),
        actions=tuple(_action(one) for one in criteria.objects_or("actions")),
        communicate=tuple(criteria.texts_or("communicate_info")),
        nl_assertions=tuple(criteria.texts_or("nl_assertions")),
        env_assertions=tuple(_assertion(one) for one in criteria.objects_or("env_assertions")),
        rewards=tuple(rewards or DEFAULT_REWARDS),
        documents=tuple(row.texts_or("required_documents")),
    )


def _initial_state(row: Row) -> dict[str, Any]:
    """The initial state unchanged, after validating it."""
    data = row.object_or("initialization_data")
    for name in ("agent_data", "user_data"):
        data.object_or(name)
    for action in row.objects_or("initialization_actions"):
        _side(action, "env_type")
        action.text("func_name")
        action.object("arguments")
    for message in row.objects_or("message_history"):
        role = message.text("role")
        if role not in ("user", "assistant", "tool"):
            message.bad("role", f"{role!r} is none of user, assistant, tool")
        if role == "tool":
            message.text("id")
        for call in message.objects_or("tool_calls"):
            call.text("id")
            call.text("name")
            call.object("arguments")
    return dict(row.data)


def _side(row: Row, name: str) -> str:
    side = row.text_or(SIDES[0], name)
    if side not in SIDES:
        row.bad(name, f"{side!r} is neither {' nor '.join(SIDES)}")
    return side


def _action(row: Row) -> dict[str, Any]:
    action = {
        "action_id": row.name("action_id"),
        "requestor": _side(row, "requestor"),
        "name": row.text("name"),
        "arguments": dict(row.object("arguments").data),
    }
    if row.name_of("compare_args"):
        action["compare_args"] = row.texts("compare_args")
    return action


def _assertion(row: Row) -> dict[str, Any]:
    expected = row.value("assert_value") if row.name_of("assert_value") else True
    if not isinstance(expected, bool):
        row.wrong(("assert_value",), expected, "true or false")
    return {
        "env_type": _side(row, "env_type"),
        "name": row.text("func_name"),
        "arguments": dict(row.object("arguments").data),
        "expected": expected,
    }


def _scenario(row: Row) -> str:
    instructions = row.value("instructions")
    parts = {"Persona": row.text_or("", "persona")}
    if isinstance(instructions, str):
        parts["Instructions"] = instructions
    else:
        inner = row.object("instructions")
        parts["Reason for the call"] = inner.text("reason_for_call")
        parts["Known"] = inner.text_or("", "known_info")
        parts["Not known"] = inner.text_or("", "unknown_info")
        parts["Instructions"] = inner.text("task_instructions")
    return "\n\n".join(f"{heading}:\n{text}" for heading, text in parts.items() if text.strip())


def _database(folder: Path, name: str) -> Mapping[str, Any]:
    for suffix, read in ((".json", read_json), (".toml", _toml)):
        file = folder / f"{name}{suffix}"
        if file.is_file():
            return as_row(file, 1, read(file)).data
    return {}


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRow(file, None, "", f"not TOML: {error}") from error


def _splits(file: Path, known: set[str]) -> dict[str, tuple[str, ...]]:
    if not file.is_file():
        return {}
    row = as_row(file, 1, read_json(file))
    splits = {}
    for name in row.data:
        splits[name] = tuple(row.texts(name))
        unknown = sorted(set(splits[name]) - known)
        if unknown:
            row.bad(name, f"no such tasks: {', '.join(unknown)}")
    return splits
