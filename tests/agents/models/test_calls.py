"""Tests of tool calls written as text: they are read by the dialect's rules or reported as errors,
never guessed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.agents.models.calls import read_calls
from tutti.tasks.serving.registry import Dialect

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(
        st.text("abc_", min_size=1, max_size=8),
        st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


def write(calls: list[tuple[str, dict[str, Any]]], dialect: Dialect) -> str:
    """Return the calls as a model of that dialect writes them."""
    if dialect == "hermes":
        texts = [json.dumps({"name": n, "arguments": a}).replace("<", "\\u003c") for n, a in calls]
        return "".join(f"<tool_call>\n{text}\n</tool_call>" for text in texts)
    if dialect == "llama":
        return "; ".join(json.dumps({"name": n, "parameters": a}) for n, a in calls)
    listed = json.dumps([{"name": n, "arguments": a} for n, a in calls])
    return listed.replace("`", "\\u0060")


@pytest.mark.parametrize("dialect", ["hermes", "llama", "json"])
@given(calls=CALLS)
def test_what_was_written_is_read(
    dialect: Dialect, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    """Names, arguments and order survive a round trip; ids differ."""
    read = read_calls(write(calls, dialect), dialect, "c")
    assert read.errors == () and read.content == ""
    functions = [call["function"] for call in read.calls]
    assert [(f["name"], json.loads(f["arguments"])) for f in functions] == calls
    assert len({call["id"] for call in read.calls}) == len(calls)


@pytest.mark.parametrize("dialect", ["openai", "hermes", "llama", "json"])
@given(text=st.text(max_size=200))
def test_any_text_is_read_without_an_exception(dialect: Dialect, text: str) -> None:
    """Any text is parsed into content, calls or errors; text without a call marker stays
    unchanged."""
    read = read_calls(text, dialect, "c")
    if not read.calls and not read.errors:
        assert read.content.strip() == text.strip()


@pytest.mark.parametrize(
    ("text", "dialect", "error"),
    [
        ("<tool_call>{quick}</tool_call>", "hermes", "not JSON"),
        ("<tool_call></tool_call>", "hermes", "empty"),
        ('<tool_call>{"arguments": {}}</tool_call>', "hermes", "without a name"),
        ('<tool_call>{"name": "a", "arguments": [1]}</tool_call>', "hermes", "no object"),
        ('<tool_call>{"name": "a", "arguments": {}} and</tool_call>', "hermes", "more text"),
        ('<tool_call>{"name": "a", "argum', "hermes", "not JSON"),
        ('<|python_tag|>{"name": "a", "parameters": {}', "llama", "not JSON"),
    ],
)
def test_half_a_call_is_an_error(text: str, dialect: Dialect, error: str) -> None:
    """A call that is truncated by the token limit or malformed is an error."""
    read = read_calls(text, dialect, "c")
    assert read.calls == () and error in read.errors[0]


def test_what_is_said_beside_calls_is_kept() -> None:
    """Text beside calls is kept in every dialect that allows it, and a fenced example that names no
    tool is text."""
    assert (
        read_calls('Hm.<|python_tag|>{"name": "a", "parameters": {}}', "llama", "c").content
        == "Hm."
    )
    fenced = 'So:\n```json\n{"name": "a", "arguments": {}}\n```\nThen.'
    assert read_calls(fenced, "json", "c").content == "So:\n\nThen."
    example = 'Like\n```json\n{"x": 1}\n```'
    assert read_calls(example, "json", "c").content == example
