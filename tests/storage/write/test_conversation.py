"""Prompts that grow are stored once, and every prompt comes back as it was sent."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti import storage
from tutti.storage.schemas import TABLES
from tutti.storage.write.conversation import Conversation, message_columns

TEXTS = st.sampled_from(["go on", "yes", "no", "a\0b", "\ud800", "", "long " * 20])
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "user", "assistant", "tool"]),
    TEXTS,
)
EDITS = st.sampled_from(["grow", "cut", "forget first", "summarise", "branch"])


def edited(prompt: list[dict[str, Any]], edit: str, new: dict[str, Any]) -> list[dict[str, Any]]:
    """What agents do to their context between calls."""
    if edit == "cut":
        return [*prompt[: len(prompt) // 2], new]
    if edit == "forget first":
        return [*prompt[:1], *prompt[2:], new]
    if edit == "summarise":
        return [{"role": "system", "content": f"summary of {len(prompt)}"}, new]
    return [*prompt[:-1], new] if edit == "branch" else [*prompt, new]


def same(rows: list[dict[str, Any]], prompt: list[dict[str, Any]]) -> bool:
    """Whether rows are the prompt, empty and absent content being one."""
    kept = ("role", "content", "tool_calls", "tool_call_id", "name")
    given = [{k: message_columns(m)[k] or None for k in kept} for m in prompt]
    for message in given:
        if message["content"]:
            message["content"] = message["content"].encode("utf-8", "backslashreplace").decode()
    return [{k: row[k] or None for k in kept} for row in rows] == given


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(EDITS, MESSAGES, MESSAGES), min_size=1, max_size=12))
def test_every_prompt_is_the_rows_at_its_spans(turns: list[tuple[str, Any, Any]]) -> None:
    """Property: whatever an agent does to its context, the stored prompt is the one it sent."""
    conversation = Conversation("attempt:1")
    stored: dict[int, dict[str, Any]] = {}
    prompt: list[dict[str, Any]] = []
    for nth, (edit, new, answer) in enumerate(turns):
        prompt = edited(prompt, edit, new)
        rows, spans = conversation.observe(f"call:{nth}", prompt, answer)
        for row in rows:
            assert row["position"] not in stored
            stored[row["position"]] = row
        found = [stored[i] for s in spans for i in range(s["first"], s["last"] + 1)]
        assert same(found, prompt)
        assert stored[max(stored)]["call_id"] == f"call:{nth}"
        prompt = [*prompt, answer]
    assert sorted(stored) == list(range(len(stored)))


@pytest.mark.parametrize("turns", [10, 40, 160])
def test_a_conversation_that_grows_costs_what_was_said(turns: int) -> None:
    """n growing prompts: two rows and one span a turn, though n²/2 messages were sent."""
    conversation, prompt = Conversation("attempt:1"), [{"role": "system", "content": "be brief"}]
    count = 0
    spans: list[dict[str, int]] = []
    for turn in range(turns):
        prompt.append({"role": "user", "content": "go on"})  # the same words are said again
        answer = {"role": "assistant", "content": f"step {turn}"}
        rows, spans = conversation.observe(f"call:{turn}", prompt, answer)
        prompt.append(answer)
        count += len(rows)
        assert len(spans) == 1
    assert count == 2 * turns + 1
    assert spans == [{"first": 0, "last": 2 * turns - 1}]


def test_an_answer_that_comes_back_without_its_empty_fields_is_the_same() -> None:
    """Clients drop nulls and servers send them; neither makes a new message."""
    conversation = Conversation("attempt:1")
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None}
    user = {"role": "user", "content": "1 + 1"}
    conversation.observe("call:1", [user], answer)
    again = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "2"}
    rows, spans = conversation.observe("call:2", [user, again, result], None)
    assert [row["role"] for row in rows] == ["tool"]
    assert spans == [{"first": 0, "last": 2}]


def test_prompts_are_asked_for_in_sql(catalog: storage.Catalog) -> None:
    """`prompt(call)` gives them from the store, an edited context too, in the order sent."""
    conversation = Conversation("attempt:1")
    messages = [{"role": "user", "content": f"m{i}"} for i in range(6)]
    rows, calls = [], []
    for call_id, prompt in (
        ("c1", messages[:4]),
        ("c2", [messages[4], *messages[1:3], messages[5]]),
    ):
        more, spans = conversation.observe(call_id, prompt, None)
        rows += more
        calls.append({"call_id": call_id, "attempt_id": "attempt:1", "prompt_spans": spans})
    storage.commit(catalog, {"messages": rows, "calls": calls})
    found = storage.query("select content from prompt('c2')", catalog.home)
    assert [row["content"] for row in found] == ["m4", "m1", "m2", "m5"]
    found = storage.query("select content from prompt('c1')", catalog.home)
    assert [row["content"] for row in found] == ["m0", "m1", "m2", "m3"]
    assert len(storage.query("select * from transcript('attempt:1')", catalog.home)) == 6


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
CALL = st.fixed_dictionaries({}, optional={"id": JSON, "function": JSON, "index": JSON})
ODD = st.fixed_dictionaries(
    {},
    optional={
        "role": JSON, "content": JSON, "reasoning": JSON, "tool_call_id": JSON, "name": JSON,
        "tool_calls": JSON | st.lists(CALL, max_size=2),
    },
)  # fmt: skip


@given(st.lists(ODD, max_size=3), ODD)
def test_whatever_a_message_holds_its_row_is_kept(
    prompt: list[dict[str, Any]], answer: dict[str, Any]
) -> None:
    """Rows were lost where a client gave its tool calls as text, or a role as a list."""
    rows, spans = Conversation("a").observe("c", prompt, answer)
    table = pa.Table.from_pylist(rows, TABLES["messages"])
    assert table.num_rows == len(prompt) + 1
    assert sum(span["last"] - span["first"] + 1 for span in spans) == len(prompt)
