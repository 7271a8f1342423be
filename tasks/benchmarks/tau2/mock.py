"""The tools of tau2's mock domain: tasks on a list, and notifications on the user's device."""

from typing import Any

from tutti.tasks.benchmarks.tau2.world import State, Toolset
from tutti.tasks.benchmarks.world import CallRefused

STATUSES = ("pending", "completed")


def create_task(state: State, user_id: str, title: str, description: str = "") -> dict[str, Any]:
    """Make a new task for a user."""
    owner = _found(state.db["users"], user_id, "user")
    if not title:
        raise CallRefused("a task needs a title")
    task_id = f"task_{len(state.db['tasks']) + 1}"
    task = {"task_id": task_id, "title": title, "status": STATUSES[0]}
    task["description"] = description
    state.db["tasks"][task_id] = task
    owner["tasks"].append(task_id)
    return task


def get_users(state: State) -> list[Any]:
    """All users, with their tasks' ids."""
    return list(state.db["users"].values())


def update_task_status(state: State, task_id: str, status: str) -> dict[str, Any]:
    """Set a task's status: pending or completed."""
    task: dict[str, Any] = _found(state.db["tasks"], task_id, "task")
    if status not in STATUSES:
        raise CallRefused(f"the status is {' or '.join(STATUSES)}, not {status!r}")
    task["status"] = status
    return task


def transfer_to_human_agents(state: State, summary: str) -> str:
    """Hand the user over to a person, with a summary, where the policy or the tools do not allow
    what is wanted."""
    return "handed over"


def check_notifications(state: State) -> list[Any]:
    """The notifications on the device."""
    return list(state.user_db.get("notifications", {}).values())


def dismiss_notification(state: State, notification_id: str) -> dict[str, Any]:
    """Mark a notification as read."""
    notifications = state.user_db.get("notifications", {})
    notification: dict[str, Any] = _found(notifications, notification_id, "notification")
    notification["status"] = "read"
    return notification


def add_notification(
    state: State, notification_id: str, message: str, task_id: str
) -> dict[str, Any]:
    """Put an unread notification on the device."""
    notification = {"notification_id": notification_id, "message": message, "task_id": task_id}
    notification["status"] = "unread"
    state.user_db.setdefault("notifications", {})[notification_id] = notification
    return notification


def assert_task_status(state: State, task_id: str, expected_status: str) -> bool:
    """Whether a task has a status."""
    return bool(_found(state.db["tasks"], task_id, "task")["status"] == expected_status)


def assert_notification_status(state: State, notification_id: str, expected_status: str) -> bool:
    """Whether a notification has a status."""
    notifications = state.user_db.get("notifications", {})
    found = _found(notifications, notification_id, "notification")
    return bool(found["status"] == expected_status)


def _found(table: dict[str, Any], key: str, what: str) -> Any:
    if key not in table:
        raise CallRefused(f"there is no {what} {key!r}")
    return table[key]


MOCK = Toolset(
    agent={
        "create_task": create_task,
        "get_users": get_users,
        "update_task_status": update_task_status,
        "transfer_to_human_agents": transfer_to_human_agents,
    },
    user={
        "check_notifications": check_notifications,
        "dismiss_notification": dismiss_notification,
    },
    hidden={
        "add_notification": add_notification,
        "assert_task_status": assert_task_status,
        "assert_notification_status": assert_notification_status,
    },
)
