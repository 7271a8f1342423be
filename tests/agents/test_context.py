"""Tests of prompts under a token budget: whole messages, calls with their results, the newest
first."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.agents.models.context import PromptWindow, spans


def conversation(turns: list[int]) -> list[dict[str, Any]]:
    """Return a question, then one turn for each entry with that number of tool results."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s" * 30},
        {"role": "user", "content": "q" * 30},
    ]
    for turn, results in enumerate(turns):
        calls = [{"id": f"{turn}-{i}", "function": {}} for i in range(results)]
        messages.append({"role": "assistant", "content": "a" * 9, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "r" * 99} for c in calls]
    return messages


@given(turns=st.lists(st.integers(0, 3), max_size=8), budget=st.integers(1, 900))
def test_every_call_has_its_result_and_every_result_its_call(turns: list[int], budget: int) -> None:
    """The instructions, the question and the last turn are always included, and more as the budget
    allows."""
    messages, window = conversation(turns), PromptWindow(budget)
    chosen = window.select(messages)
    assert chosen == sorted(set(chosen)) and chosen[:2] == [0, 1]
    assert chosen[-1] == len(messages) - 1
    kept = [messages[position] for position in chosen]
    asked = [call["id"] for message in kept for call in message.get("tool_calls", [])]
    assert asked == [message["tool_call_id"] for message in kept if message["role"] == "tool"]
    first_turns = [p for p in chosen if p > 1 and messages[p]["role"] == "assistant"]
    if len(first_turns) > 1:  # more than what must stay
        assert sum(map(window.tokens, kept)) <= budget
    left_out = [p for p in range(len(messages)) if p not in chosen]
    assert left_out == list(range(2, 2 + len(left_out))), "the oldest go first"


@given(turns=st.lists(st.integers(0, 3), max_size=8))
def test_without_a_budget_everything_goes(turns: list[int]) -> None:
    """Without a budget, all messages are sent and nothing is estimated."""
    messages = conversation(turns)
    assert PromptWindow(None).select(messages) == list(range(len(messages)))


def test_the_estimate_follows_the_engine() -> None:
    """If the engine counts one token per character, fewer messages fit."""
    messages = conversation([1, 1, 1])
    window = PromptWindow(400)
    before = window.select(messages)
    window.learn(messages, sum(len(m["content"]) for m in messages) + 8 * len(messages))
    after = window.select(messages)
    assert len(after) < len(before)


def test_a_long_prompt_that_fits_is_not_taken_as_too_long() -> None:
    """At six characters a token, the first estimate is twice the budget; the engine's count
    decides."""
    messages = [{"role": "user", "content": "x" * 6000}]
    window = PromptWindow(1100)
    assert window.select(messages) == [0]
    window.learn(messages, 1008)
    said = {"role": "assistant", "content": "y" * 300}
    assert window.tokens(said) == pytest.approx(8 + 50)


@given(
    ratio=st.floats(1.5, 8.0),
    tools=st.integers(0, 3000),
    sizes=st.lists(st.integers(1200, 5000), min_size=3, max_size=6),
)
def test_tools_are_not_taken_for_long_words(ratio: float, tools: int, sizes: list[int]) -> None:
    """Two prompts suffice to determine both the characters per token and the size of the tools."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "q" * 90}]
    window = PromptWindow(10**6)
    for size in sizes:
        said = sum(len(message["content"]) for message in messages)
        window.learn(messages, round(tools + said / ratio + 8 * len(messages)))
        messages.append({"role": "assistant", "content": "a" * size})
    assert window.tokens(messages[-1]) == pytest.approx(8 + sizes[-1] / ratio, rel=0.02)
    assert window._besides == pytest.approx(tools, abs=0.01 * sum(sizes) + 5)


def test_a_budget_of_nothing_is_refused() -> None:
    """A budget of zero is refused at construction, not at the first prompt."""
    with pytest.raises(ValueError, match="at least 1 token, not 0"):
        PromptWindow(0)


@given(st.sets(st.integers(0, 50), min_size=1))
def test_spans_name_the_positions(positions: set[int]) -> None:
    """Span ends are inclusive, as the gateway reads them."""
    found: list[int] = []
    for span in spans(sorted(positions)).split(","):
        first, last = map(int, span.split("-"))
        found += range(first, last + 1)
    assert found == sorted(positions)
