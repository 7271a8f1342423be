"""Tests that growing prompts are stored once and every prompt is returned as it was sent."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti import storage
from tutti.storage.write import conversation as conversation_module
from tutti.storage.write.conversation import Conversation, KeptContext, message_columns
from tutti.storage.write.encode import TABLES

TEXTS = st.sampled_from(["go on", "yes", "no", "a\0b", "\ud800", "", "long " * 20])
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "user", "assistant", "tool"]),
    TEXTS,
)
EDITS = st.sampled_from(["grow", "cut", "forget first", "summarise", "branch", "again"])


def edited(prompt: list[dict[str, Any]], edit: str, new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the prompt edited as agents edit their context between calls."""
    if edit == "again":
        return prompt[:-1] or [new]
    if edit == "cut":
        return [*prompt[: len(prompt) // 2], new]
    if edit == "forget first":
        return [*prompt[:1], *prompt[2:], new]
    if edit == "summarise":
        return [{"role": "system", "content": f"summary of {len(prompt)}"}, new]
    return [*prompt[:-1], new] if edit == "branch" else [*prompt, new]


def same(rows: list[dict[str, Any]], prompt: list[dict[str, Any]]) -> bool:
    """Return whether rows equal the prompt, with empty and absent content being equal."""
    kept = ("role", "content", "tool_calls", "tool_call_id", "name")
    given = [{k: message_columns(m)[k] or None for k in kept} for m in prompt]
    for message in given:
        if message["content"]:
            message["content"] = message["content"].encode("utf-8", "backslashreplace").decode()
    return [{k: row[k] or None for k in kept} for row in rows] == given


class CountedPositions(list[int]):
    """List that counts accesses to its positions."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        for position in super().__iter__():
            CountedPositions.looks += 1
            yield position


def test_a_prompt_whose_start_was_edited_is_placed_in_linear_time() -> None:
    """For any number of repetitions of a message, each of its positions is accessed once."""
    conversation, count = Conversation("attempt:1"), 500
    said = [{"role": "user", "content": "go on"}] * count
    conversation.observe("call:1", [{"role": "system", "content": "a"}, *said], None)
    known = conversation._later_places.items()
    conversation._later_places = {key: CountedPositions(places) for key, places in known}
    edited = [{"role": "system", "content": "b"}, *said, said[0]]
    rows, spans = conversation.observe("call:2", edited, None)
    assert [row["position"] for row in rows] == [count + 1, count + 2]
    assert spans == [
        {"first": count + 1, "last": count + 1},
        {"first": 1, "last": count},
        {"first": count + 2, "last": count + 2},
    ]
    assert count - 1 <= CountedPositions.looks <= count + 2


def test_the_common_beginning_of_two_prompts_keeps_its_positions() -> None:
    """An earlier message has the same text, but a prompt that only grows has new positions."""
    conversation = Conversation("attempt:1")
    a, b, c, d = ({"role": "user", "content": text} for text in "abcd")
    spans: list[Any] = []
    for nth, prompt in enumerate(([a], [b], [b, a], [b, a, c], [b, a, d])):
        _, spans = conversation.observe(f"call:{nth}", prompt, None)
    assert spans == [{"first": 1, "last": 2}, {"first": 4, "last": 4}]


def test_after_rows_were_lost_no_prompt_refers_to_them() -> None:
    """The whole prompt is stored again, at new positions."""
    conversation = Conversation("attempt:1", first=5)
    prompt = [{"role": "user", "content": "a"}]
    conversation.observe("call:1", prompt, {"role": "assistant", "content": "b"})
    conversation.restart()
    rows, spans = conversation.observe("call:2", prompt, None)
    assert [row["position"] for row in rows] == [7] and spans == [{"first": 7, "last": 7}]


@settings(deadline=None, max_examples=settings().max_examples * 3)
@given(st.lists(st.tuples(EDITS, MESSAGES, MESSAGES), min_size=1, max_size=12), st.booleans())
def test_every_prompt_is_the_rows_at_its_spans(
    turns: list[tuple[str, Any, Any]], repeats: bool
) -> None:
    """This holds for any change of the context by an agent."""
    conversation = Conversation("attempt:1")
    stored: dict[int, dict[str, Any]] = {}
    prompt: list[dict[str, Any]] = []
    for nth, (edit, new, answer) in enumerate(turns):
        prompt = edited(prompt, edit, new)
        rows, spans = conversation.observe(f"call:{nth}", prompt, answer, repeats=repeats)
        for row in rows:
            assert row["position"] not in stored
            stored[row["position"]] = row
        found = [stored[i] for s in spans for i in range(s["first"], s["last"] + 1)]
        assert same(found, prompt)
        assert stored[max(stored)]["call_id"] == f"call:{nth}"
        prompt = [*prompt, answer]
    assert sorted(stored) == list(range(len(stored)))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("begun", [[], [{"role": "system", "content": "be brief"}]])
@pytest.mark.parametrize("texts", ["aaaa", "abab", "aabba", "abcabc"])
def test_a_prompt_that_was_answered_and_comes_again_is_said_again(
    begun: list[dict[str, Any]], texts: str
) -> None:
    """In one-turn calls of one program, each question precedes its answer, and instructions are
    stored once."""
    conversation, said = Conversation("attempt:1"), []
    for nth, text in enumerate(texts):
        answer = {"role": "assistant", "content": f"answer {nth}"}
        rows, _ = conversation.observe(f"call:{nth}", [*begun, user(text)], answer, repeats=True)
        said += [row["content"] for row in rows if row["role"] != "system"]
    assert said == [each for n, text in enumerate(texts) for each in (text, f"answer {n}")]
    assert conversation._count == 2 * len(texts) + len(begun)


def test_a_prompt_without_an_answer_is_sent_again_and_not_said_again() -> None:
    """The repeated prompt is a client's retry after an error; edited contexts keep their unchanged
    messages."""
    conversation = Conversation("attempt:1")
    answer = {"role": "assistant", "content": "b"}
    assert len(conversation.observe("call:1", [user("a")], None, repeats=True)[0]) == 1
    assert len(conversation.observe("call:2", [user("a")], answer, repeats=True)[0]) == 1
    grown = [user("a"), answer, user("c")]
    assert len(conversation.observe("call:3", grown, answer, repeats=True)[0]) == 2
    rows, spans = conversation.observe("call:4", grown, answer, repeats=True)
    assert [row["content"] for row in rows] == ["c", "b"]
    assert spans == [{"first": 0, "last": 1}, {"first": 4, "last": 4}]
    rows, _ = conversation.observe("call:5", [user("a"), user("c")], None, repeats=True)
    assert rows == []


@pytest.mark.parametrize("turns", [10, 40, 160])
def test_a_conversation_that_grows_costs_what_was_said(turns: int) -> None:
    """n growing prompts take two rows and one span per turn, although n²/2 messages were sent."""
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


def calling(arguments: Any, call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    """Return an assistant's tool call."""
    called = {"name": "add", "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": called}
    return {"role": "assistant", "content": None, "tool_calls": [call]} | fields


def text(said: str, kind: str = "text", **fields: Any) -> dict[str, Any]:
    """Return a part of a message."""
    return {"type": kind, "text": said} | fields


SAID = {"role": "assistant", "content": "done"}
TWO_CALLS = [calling('{"a":1.5}', call_id)["tool_calls"][0] for call_id in ("c2", "c1")]
PARSED = [call | {"function": call["function"] | {"arguments": {"a": 1.5}}} for call in TWO_CALLS]
AS_TEXT = str(PARSED[::-1])
"""As smolagents writes them."""
SAME = {
    "spaces": (calling('{"a":1,"b":[2]}'), calling('{"a": 1, "b": [2]}')),
    "order": (calling('{"a":1,"b":2}'), calling('{"b": 2, "a": 1}')),
    "escapes": (calling('{"a":"\\u00e9"}'), calling('{"a": "é"}')),
    "javascript's numbers": (calling('{"a":1.0}'), calling('{"a":1}')),
    "javascript's numbers in lists": (calling('{"a":[1.0]}'), calling('{"a":[1]}')),
    "no arguments": (calling(""), calling("{}")),
    "arguments as an object": (calling('{"a":1}'), calling({"a": 1})),
    "empty content": (calling("{}"), calling("{}", content="")),
    "no content": (calling("{}"), {k: v for k, v in calling("{}").items() if k != "content"}),
    "empty tool calls": (SAID | {"tool_calls": []}, SAID),
    "null tool calls": (SAID | {"tool_calls": None, "refusal": None}, SAID),
    "a part": (SAID, SAID | {"content": [text("done", "output_text", annotations=[])]}),
    "several parts": (SAID, SAID | {"content": [text("do"), text("ne")]}),
    "a mark for a cache": (
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "user", "content": [text("a"), text("b", cache_control={"type": "ephemeral"})]},
    ),
    "without its reasoning": (SAID | {"reasoning_content": "hm"}, SAID),
    "stripped": (SAID | {"content": "\n\ndone\n"}, SAID),
    "only space": (calling("{}", content="\n\n"), calling("{}")),
    "another order of calls": (
        {"role": "assistant", "tool_calls": [*TWO_CALLS]},
        {"role": "assistant", "tool_calls": [*reversed(TWO_CALLS)]},
    ),
    "calls as text": (
        {"role": "assistant", "content": "see\n", "tool_calls": TWO_CALLS},
        {"role": "assistant", "content": [text(f"see\nCalling tools:\n{AS_TEXT}")]},
    ),
    "calls as text alone": (
        {"role": "assistant", "tool_calls": TWO_CALLS},
        {"role": "assistant", "content": f"Calling tools:\n{AS_TEXT}"},
    ),
    "code as a call": (
        SAID | {"content": "<code>\n1\n"},
        SAID | {"content": [text(f"<code>\n1\n</code>\nCalling tools:\n{AS_TEXT}")]},
    ),
    "a refusal": (SAID | {"content": None, "refusal": "no"}, SAID | {"content": "no"}),
}


@pytest.mark.parametrize(("answer", "again"), SAME.values(), ids=SAME.keys())
def test_an_answer_is_known_in_the_form_in_which_a_client_sends_it_back(
    answer: dict[str, Any], again: dict[str, Any]
) -> None:
    """This holds for any serialisation, also if the client alternates between both forms."""
    conversation = Conversation("attempt:1")
    user = {"role": "user", "content": "1 + 1"}
    conversation.observe("call:1", [user], answer)
    for turn, form in enumerate((again, answer, again), 2):
        rows, spans = conversation.observe(f"call:{turn}", [user, form], None)
        assert (rows, spans) == ([], [{"first": 0, "last": 1}])


OTHERS = {
    "another value": (calling('{"a":1}'), calling('{"a":2}')),
    "another value in a list": (calling('{"a":[1]}'), calling('{"a":[2]}')),
    "text for a number": (calling('{"a":1}'), calling('{"a":"1"}')),
    "true for one": (calling('{"a":1}'), calling('{"a":true}')),
    "another id": (calling("{}"), calling("{}", "c2")),
    "arguments that are no JSON": (calling('{"a":'), calling('{"a": ')),
    "a large number": (calling('{"a":9007199254740993.0}'), calling('{"a":9007199254740993}')),
    "other text": (SAID, SAID | {"content": "done."}),
    "a user's space": ({"role": "user", "content": "a"}, {"role": "user", "content": "a "}),
    "other calls as text": (
        {"role": "assistant", "tool_calls": TWO_CALLS[:1]},
        {"role": "assistant", "content": f"Calling tools:\n{AS_TEXT}"},
    ),
    "text that is no calls": (SAID, SAID | {"content": "done\nCalling tools:\nnone"}),
    "another speaker": (SAID, {"role": "user", "content": "done"}),
    "deep arguments": (calling("[" * 300 + "]" * 300), calling("[" * 301 + "]" * 301)),
}


@pytest.mark.parametrize(("answer", "other"), OTHERS.values(), ids=OTHERS.keys())
def test_what_means_something_else_is_another_message(
    answer: dict[str, Any], other: dict[str, Any]
) -> None:
    """No message is lost because it is similar to another."""
    conversation = Conversation("attempt:1")
    conversation.observe("call:1", [], answer)
    rows, _ = conversation.observe("call:2", [other], None)
    assert len(rows) == 1


def test_a_form_is_normalised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty growing prompts have 1,600 messages; only each new one is processed."""
    looked: list[Any] = []
    real = conversation_module._meaning

    def meaning(message: Any) -> int:
        looked.append(message)
        return real(message)

    monkeypatch.setattr(conversation_module, "_meaning", meaning)
    conversation, prompt = Conversation("attempt:1"), [{"role": "user", "content": "begin"}]
    for turn in range(40):
        answer = calling(f'{{"a":{turn}}}', f"c{turn}")
        conversation.observe(f"call:{turn}", prompt, answer)
        result = {"role": "tool", "tool_call_id": f"c{turn}", "content": "ok"}
        prompt = [*prompt, calling(f'{{"a": {turn}}}', f"c{turn}"), result]
    assert len(looked) == 3 * 40 - 2, "the engine's form, the client's and the result"


def said(*texts: str) -> list[dict[str, Any]]:
    """Return messages of a user."""
    return [{"role": "user", "content": each} for each in texts]


def test_a_context_that_the_server_keeps_is_part_of_the_prompt() -> None:
    """Contexts are continued, branched, and used with other instructions; an unknown one is
    omitted."""
    conversation = Conversation("attempt:1", first=5)
    system = {"role": "system", "content": "brief"}
    answers = [{"role": "assistant", "content": name} for name in "ABCDE"]
    rows, spans = conversation.observe(
        "1", [system, *said("a")], answers[0], KeptContext(None, ("r1",), 1)
    )
    assert [row["position"] for row in rows] == [5, 6, 7]
    _, spans = conversation.observe("2", said("b"), answers[1], KeptContext("r1", ("r2",)))
    assert spans == [{"first": 6, "last": 8}], "without the instructions of the first"
    # From r1 again, with its instructions and a message that is the same as one of it.
    rows, spans = conversation.observe(
        "3", [system, *said("a")], answers[2], KeptContext("r1", ("r3",), 1)
    )
    assert [row["content"] for row in rows] == ["a", "C"]
    assert spans == [{"first": 5, "last": 7}, {"first": 10, "last": 10}]
    _, spans = conversation.observe("4", said("d"), answers[3], KeptContext("r3"))
    assert spans == [{"first": 6, "last": 7}, {"first": 10, "last": 12}]
    rows, spans = conversation.observe("5", said("e"), answers[4], KeptContext("r9"))
    assert [row["content"] for row in rows] == ["e", "E"]
    assert spans == [{"first": 14, "last": 14}]


def test_old_contexts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of contexts is bounded; a context that is used again becomes the newest."""
    monkeypatch.setattr(conversation_module, "MAX_CONTEXTS", 2)
    conversation = Conversation("attempt:1")
    for name in ("r1", "r2", "r1", "r3"):
        conversation.observe(name, said(name), None, KeptContext(None, (name,)))
    assert list(conversation._contexts) == ["r1", "r3"]


def test_prompts_are_asked_for_in_sql(catalog: storage.Catalog) -> None:
    """`prompt(call)` returns them from the store in the order sent, also for an edited context."""
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
    """Rows used to be lost if a client sent its tool calls as text, or a role as a list."""
    rows, spans = Conversation("a").observe("c", prompt, answer)
    table = pa.Table.from_pylist(rows, TABLES["messages"])
    assert table.num_rows == len(prompt) + 1
    assert sum(span["last"] - span["first"] + 1 for span in spans) == len(prompt)
