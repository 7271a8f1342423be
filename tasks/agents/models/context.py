"""Selection of a conversation's messages that fit the next prompt's token budget.

Messages are kept or left out whole, and a message with tool calls only together with its results.
The instructions, the question and the last turn are always kept, even if the estimate exceeds the
budget, because only the engine counts exactly. `Ledger` summarizes an attempt for its model.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

from tutti.storage import Cost

Message = dict[str, Any]

FIRST_RATIO = 3.0  # characters per token, before the engine has counted enough: rather too few
ENOUGH = 1000  # characters; in shorter prompts most tokens may be the tools' and the template's
TEMPLATE_TOKENS = 8  # around each message


class PromptWindow:
    """Selects prompts that fit `budget` tokens; learns from the engine's counts the characters per
    token and the overhead of a prompt (tools)."""

    def __init__(self, budget: int | None) -> None:
        """`budget` is for the whole prompt; None selects everything."""
        if budget is not None and budget < 1:
            raise ValueError(f"the context budget must be at least 1 token, not {budget}")
        self.budget = budget
        self._ratio = FIRST_RATIO
        self._besides = 0.0
        self._counted = (0, 0)  # characters and tokens of the messages of the last prompt

    def learn(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Learn from the engine's count of a prompt."""
        said = sum(map(_characters, messages))
        counted = prompt_tokens - TEMPLATE_TOKENS * len(messages)
        if counted <= 0:
            return
        more_said, more_counted = said - self._counted[0], counted - self._counted[1]
        if more_said >= ENOUGH and more_counted > 0:
            self._ratio = max(more_said / more_counted, 0.5)
        self._besides = max(counted - said / self._ratio, 0.0)
        self._counted = (said, counted)

    def tokens(self, message: Message) -> float:
        """Estimated tokens of a message."""
        return TEMPLATE_TOKENS + _characters(message) / self._ratio

    def select(self, messages: Sequence[Message]) -> list[int]:
        """Positions of the next prompt, in order."""
        if self.budget is None:
            return list(range(len(messages)))
        turns = _turns(messages)
        chosen = [0, len(turns) - 1] if len(turns) > 1 else [0]
        must = sum(self._weight(messages, turns[place]) for place in chosen)
        room = self.budget - self._besides - must
        for place in range(len(turns) - 2, 0, -1):
            room -= self._weight(messages, turns[place])
            if room < 0:
                break
            chosen.append(place)
        return [position for place in sorted(chosen) for position in turns[place]]

    def _weight(self, messages: Sequence[Message], turn: range) -> float:
        return sum(self.tokens(messages[position]) for position in turn)


def _turns(messages: Sequence[Message]) -> list[range]:
    """Groups that are kept or left out together: everything up to the first answer, then each
    answer with what follows it (tool results, the user's next message)."""
    starts = [0] + [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    if len(starts) > 1 and starts[1] == 0:
        starts = starts[1:]
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(messages)], strict=True)]


def _characters(message: Message) -> int:
    content = message.get("content")
    size = len(content) if isinstance(content, str) else len(orjson.dumps(content))
    return size + (len(orjson.dumps(message["tool_calls"])) if message.get("tool_calls") else 0)


def spans(positions: Sequence[int]) -> str:
    """Positions in the gateway's format: ``0-1,6-9``."""
    found: list[list[int]] = []
    for position in positions:
        if found and found[-1][1] + 1 == position:
            found[-1][1] = position
        else:
            found.append([position, position])
    return ",".join(f"{first}-{last}" for first, last in found)


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
