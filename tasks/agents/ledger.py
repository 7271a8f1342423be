"""A short summary, for the model, of what its attempt has tried, spent and failed at.

Without it an agent whose oldest messages no longer fit the prompt would repeat itself, and one that
does not know its remaining budget would be stopped in the middle of its work. The lines are
appended to the last tool result, so that they are part of the stored conversation.
"""

from collections import Counter
from collections.abc import Sequence

from tutti.storage import Cost

MOST_FAILURES = 3
MOST_CHARACTERS = 60
START = "\n\n[so far] "


class Ledger:
    """Tool runs, failures and spending of one attempt."""

    def __init__(self) -> None:
        self._tried: Counter[str] = Counter()
        self._failed: list[str] = []

    def note(self, tool: str, arguments: str, status: str) -> None:
        """Count one tool run."""
        self._tried[tool] += 1
        if status != "ok":
            self._failed.append(f"{tool} {_short(arguments)}: {status}")

    def text(self, spent: Sequence[tuple[str, float | Cost, float | None]]) -> str:
        """The summary; `spent` are (unit, amount, limit or None)."""
        parts = []
        if self._tried:
            tried = ", ".join(f"{tool} {count}x" for tool, count in sorted(self._tried.items()))
            parts.append(f"tried: {tried}")
        parts.append("spent: " + ", ".join(_spent(*each) for each in spent))
        if self._failed:
            last = self._failed[-MOST_FAILURES:]
            more = len(self._failed) - len(last)
            parts.append("failed: " + "; ".join(last) + (f"; {more} before" if more else ""))
        return START + ". ".join(parts) + "."


def _spent(unit: str, amount: float | Cost, limit: float | None) -> str:
    return f"{amount:g} {unit}" if limit is None else f"{amount:g} of {limit:g} {unit}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
