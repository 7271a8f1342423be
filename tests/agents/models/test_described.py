"""Tests of tools described as text: the calls shown to a model can be parsed back."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.agents.models.calls import as_text, read_calls
from tutti.tasks.agents.tools.tool import TOOL_SCHEMAS
from tutti.tasks.serving.registry import Dialect

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "what is os?"}]
WRITTEN = [name for name in get_args(Dialect) if name != "openai"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def calling(*calls: tuple[str, Any], said: str = "") -> dict[str, Any]:
    """Return an assistant message that calls tools, as stored in the trajectory."""
    made = [
        {"id": f"c-{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, (name, arguments) in enumerate(calls)
        for text in [json.dumps(arguments)]
    ]
    return {"role": "assistant", "content": said, "tool_calls": made}


@pytest.mark.parametrize("dialect", WRITTEN)
def test_the_instructions_have_every_tool_and_how_to_call_it(dialect: Dialect) -> None:
    """The tool descriptions are appended to the system message, which is added if there is none."""
    told = as_text(ASKED, TOOL_SCHEMAS, dialect)
    assert told[1:] == ASKED[1:]
    text = told[0]["content"]
    assert text.startswith("Be brief.\n")
    for tool in TOOL_SCHEMAS:
        assert json.dumps(tool["function"]) in text
    alone = as_text(ASKED[1:], TOOL_SCHEMAS, dialect)
    assert [message["role"] for message in alone] == ["system", "user"]


@pytest.mark.parametrize("dialect", WRITTEN)
@given(calls=st.lists(st.tuples(st.sampled_from(["search", "python"]),
                                st.dictionaries(st.text(max_size=5), JSON, max_size=3)),
                      min_size=1, max_size=3))  # fmt: skip
def test_calls_are_shown_as_they_can_be_read(dialect: Dialect, calls: Any) -> None:
    """A dialect's writer and reader agree on names and arguments."""
    (told,) = as_text([calling(*calls)], [], dialect)
    assert told.keys() == {"role", "content"}
    read = read_calls(told["content"], dialect, "x")
    assert not read.errors
    found = [
        (each["function"]["name"], json.loads(each["function"]["arguments"])) for each in read.calls
    ]
    assert found == calls


def test_results_of_one_turn_are_one_message_of_the_user() -> None:
    """Chat templates of such models require user and assistant messages to alternate."""
    results = [{"role": "tool", "tool_call_id": f"c-{n}", "content": f"r{n}"} for n in range(2)]
    turn = calling(("search", {"query": "a"}), ("search", {"query": "b"}), said="Let me look.")
    told = as_text([*ASKED, turn, *results], TOOL_SCHEMAS, "hermes")
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user"]
    assert told[2]["content"].startswith("Let me look.\n<tool_call>")
    assert all(f"\nr{n}\n" in told[3]["content"] for n in range(2))


def test_without_a_dialect_nothing_is_told() -> None:
    """Without a dialect, no tools are described to the model."""
    assert as_text(ASKED, TOOL_SCHEMAS, "openai") == ASKED
