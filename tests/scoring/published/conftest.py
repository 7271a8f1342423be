"""Fixture: an attempt with calls, as scorers get it."""

from typing import Any

from tutti.tasks.scoring import Submission


def calling(*calls: tuple[str, Any]) -> Submission:
    """Return one message with these calls, each a name and its arguments."""
    made = [{"function": {"name": name, "arguments": given}} for name, given in calls]
    return Submission(None, "", [{"role": "assistant", "content": None, "tool_calls": made}])
