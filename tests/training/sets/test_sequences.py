"""Tests of sequences from recorded ids: every id that the model wrote is trained once, at its own
place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import TokenHistory
from tutti.tasks.training.sets.sequences import (
    ANSWER,
    HISTORY,
    NOT_TRAINED,
    RecordedCall,
    recorded_calls,
    sequences_of,
)

END = 0
ENDS = frozenset([END])


def call(nth: int, prompt: list[int], completion: list[int]) -> RecordedCall:
    return RecordedCall(f"c{nth}", prompt, completion, [-0.1 * nth] * len(completion))


def test_a_conversation_that_grows_is_one_sequence() -> None:
    """The sequence is prompt, reply, tool result, reply, with the mask where the model wrote."""
    first = call(0, [1, 2], [3, END])
    second = call(1, [1, 2, 3, END, 7, 8], [4, 5, END])
    found = sequences_of([first, second], ENDS)
    (sequence,) = found.sequences
    assert sequence.ids == [1, 2, 3, END, 7, 8, 4, 5, END]
    assert sequence.turns == [-1, -1, 0, 0, -1, -1, 1, 1, 1]
    assert sequence.logprobs == [0, 0, 0, 0, 0, 0, -0.1, -0.1, -0.1]
    assert (found.turns, found.truncated, found.breaks) == (2, 0, {})


def test_rewritten_answers_and_histories_begin_new_sequences() -> None:
    """Examples are reasoning removed from a reply, and a system prompt with the current time."""
    calls = [
        call(0, [1, 2], [9, 9, 3, END]),
        call(1, [1, 2, 3, END, 7], [4, END]),
        call(2, [5, 2, 3, END, 7, 4, END, 7], [6, END]),
    ]
    found = sequences_of(calls, ENDS)
    assert [len(each.calls) for each in found.sequences] == [1, 1, 1]
    assert found.breaks == {ANSWER: 1, HISTORY: 1}


def test_branches_continue_where_they_left() -> None:
    """Two sub-agents that share a program alternate: there are two sequences, not four."""
    calls = [
        call(0, [1, 1], [2, END]),
        call(1, [5, 5], [6, END]),
        call(2, [1, 1, 2, END, 3], [4, END]),
        call(3, [5, 5, 6, END, 7], [8, END]),
    ]
    assert [each.calls for each in sequences_of(calls, ENDS).sequences] == [
        ["c0", "c2"],
        ["c1", "c3"],
    ]


def test_a_cut_answer_is_not_trained_whatever_its_finish_reason() -> None:
    """A truncated answer stays as context if the agent continues from it."""
    found = sequences_of([call(0, [1], [2, 3]), call(1, [1, 2, 3, 4], [5, END])], ENDS)
    (sequence,) = found.sequences
    assert sequence.turns == [-1, -1, -1, -1, 1, 1] and found.truncated == 1
    assert sequences_of([call(0, [1], [2, 3])], ENDS).sequences == [], "nothing to learn"


@st.composite
def conversations(draw: st.DrawFn) -> list[RecordedCall]:
    """Draw calls of an agent that continues, strips its replies, or truncates its context."""
    ids = st.lists(st.integers(1, 4), min_size=1, max_size=8)
    context, calls = draw(ids), []
    for nth in range(draw(st.integers(1, 6))):
        completion = [*draw(ids), END]
        calls.append(call(nth, list(context), completion))
        what = draw(st.sampled_from(["whole", "stripped", "cut"]))
        kept = {"whole": completion, "stripped": completion[1:], "cut": completion}[what]
        context = (context[2:] if what == "cut" else context) + kept + draw(ids)
    return calls


@given(conversations())
def test_every_written_id_is_trained_once_at_its_place(calls: list[RecordedCall]) -> None:
    found = sequences_of(calls, ENDS)
    assert sum(each.trained for each in found.sequences) == sum(len(c.completion) for c in calls)
    by_name = {each.call_id: (turn, each) for turn, each in enumerate(calls)}
    for sequence in found.sequences:
        for name in sequence.calls:
            turn, made = by_name[name]
            at = len(made.prompt)
            assert sequence.ids[:at] == list(made.prompt), "it reads what the model read"
            assert sequence.ids[at : at + len(made.completion)] == list(made.completion)
            assert sequence.turns[at : at + len(made.completion)] == [turn] * len(made.completion)
    assert len(found.sequences) == 1 + sum(found.breaks.values())


@given(conversations())
def test_calls_come_back_from_their_rows(calls: list[RecordedCall]) -> None:
    """The rows are in the store's format: spans of earlier calls."""
    history, rows = TokenHistory(), []
    for each in calls:
        spans = history.observe(each.call_id, each.prompt, each.completion)
        row: dict[str, Any] = {"call_id": each.call_id, "prompt_token_ids": spans}
        row |= {"token_ids": each.completion, "logprobs": each.logprobs, "weights_at_start": None}
        rows.append(row | {"is_turn": True})
    assert recorded_calls(rows) == calls


@pytest.mark.parametrize("lost", ["token_ids", "logprobs", "prompt_token_ids"])
def test_what_was_not_recorded_is_never_guessed(lost: str) -> None:
    row: dict[str, Any] = {"call_id": "c", "token_ids": [1], "logprobs": [-0.5]}
    row |= {"prompt_token_ids": [], "weights_at_start": None, "is_turn": True}
    assert recorded_calls([row]) is not None
    assert recorded_calls([row | {lost: None}]) is None
    assert recorded_calls([row | {"logprobs": [-0.5, -0.5]}]) is None
    assert NOT_TRAINED < 0
