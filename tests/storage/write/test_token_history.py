"""Tests of prompts stored as spans of earlier calls: the prompt read back is the one sent, with
O(n) storage for a dialogue."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import BrokenSpans, TokenHistories, TokenHistory, read_prompts

IDS = st.lists(st.integers(0, 3), max_size=60)


def row(call_id: str, spans: list[dict[str, Any]], completion: list[int]) -> dict[str, Any]:
    return {"call_id": call_id, "prompt_token_ids": spans, "token_ids": completion}


@st.composite
def agents(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Draw calls of an agent that continues, truncates, branches or starts again."""
    calls: list[tuple[list[int], list[int]]] = []
    for _ in range(draw(st.integers(1, 8))):
        new = draw(IDS)
        if calls:
            prompt, completion = draw(st.sampled_from(calls))
            whole = prompt + completion
            cut = sorted(draw(st.tuples(st.integers(0, len(whole)), st.integers(0, len(whole)))))
            what = draw(st.sampled_from(["continue", "cut", "rewind", "anew"]))
            kept = {
                "continue": whole,
                "cut": whole[: cut[0]] + whole[cut[1] :],
                "rewind": whole[: cut[0]],
                "anew": [],
            }
            new = kept[what] + new
        calls.append((new, draw(IDS)))
    return calls


@given(agents())
def test_every_prompt_is_read_back_exactly(calls: list[tuple[list[int], list[int]]]) -> None:
    history = TokenHistory()
    rows = [
        row(f"c{nth}", history.observe(f"c{nth}", prompt, completion), completion)
        for nth, (prompt, completion) in enumerate(calls)
    ]
    read = read_prompts(reversed(rows))
    assert read == {f"c{nth}": prompt for nth, (prompt, _) in enumerate(calls)}


def test_a_growing_conversation_stores_each_token_once() -> None:
    history, context, stored = TokenHistory(), list(range(500)), 0
    for nth in range(100):
        completion = [nth, nth + 1, 7]
        spans = history.observe(f"c{nth}", context, completion)
        stored += sum(len(span["ids"] or ()) for span in spans)
        assert len(spans) <= 2
        context = context + completion + [9] * 20
    assert stored == 500 + 99 * 20
    assert history.size == 4 * (len(context) - 20), "one sequence is remembered, the last"


def test_a_context_whose_oldest_turns_are_dropped_is_two_references_and_what_is_new() -> None:
    history = TokenHistory()
    system, old, recent = list(range(50)), list(range(1000, 1400)), list(range(2000, 2400))
    history.observe("a", system + old, recent)
    spans = history.observe("b", system + recent + [5, 6], [])
    assert [(span["call_id"], span["ids"]) for span in spans] == [
        ("a", None),
        ("a", None),
        (None, [5, 6]),
    ]


@pytest.mark.parametrize(("kept", "calls"), [(16, ["a", "a", None]), (15, ["a", None])])
def test_a_kept_part_of_fewer_than_16_ids_is_stored_again(
    kept: int, calls: list[str | None]
) -> None:
    history = TokenHistory()
    system, old, recent = list(range(50)), list(range(1000, 1100)), list(range(2000, 2000 + kept))
    history.observe("a", system + old, recent)
    spans = history.observe("b", system + recent + [5], [])
    assert [span["call_id"] for span in spans] == calls


def test_of_calls_that_share_as_much_the_latest_is_referred_to() -> None:
    """The latest call is remembered longest."""
    history = TokenHistory()
    for call_id, said in (("a", 3), ("b", 4)):
        history.observe(call_id, [1, 2], [said])
    (span,) = history.observe("c", [1, 2], [])
    assert span["call_id"] == "b"


def test_programs_beyond_the_bound_are_forgotten_and_stored_again_in_full() -> None:
    histories = TokenHistories(max_bytes=4 * 150)
    histories.observe("one", "a", list(range(100)), [])
    histories.observe("two", "b", list(range(100)), [])
    (span,) = histories.observe("one", "c", list(range(100)), [])
    assert span["ids"] == list(range(100))
    histories.forget("one")
    assert histories.observe("one", "d", [1], [])[0]["ids"] == [1]
    for _ in range(5):  # what is forgotten takes no place of those that stay
        histories.observe("gone", "e", list(range(100)), [])
        histories.forget("gone")
    histories.observe("three", "f", [1, 2], [])
    (span,) = histories.observe("three", "g", [1, 2], [])
    assert span["ids"] is None, "it is remembered beside one"
    assert histories.observe("one", "h", [1], [])[0]["ids"] is None


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ([{"call_id": "gone", "first": 0, "last": 0, "ids": None}], "leads to 'gone'"),
        ([{"call_id": "a", "first": 0, "last": 9, "ids": None}], "which has 2"),
        ([{"call_id": "b", "first": 0, "last": 0, "ids": None}], "leads to 'b'"),
    ],
)
def test_spans_that_lead_nowhere_are_refused(spans: list[dict[str, Any]], said: str) -> None:
    first = row("a", [{"call_id": None, "first": None, "last": None, "ids": [1]}], [2])
    with pytest.raises(BrokenSpans, match=said):
        read_prompts([first, row("b", spans, [])])
