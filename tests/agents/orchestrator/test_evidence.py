"""Tests of evidence under caps: the best and the latest pieces stay whole, and no character is
split."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.agents.orchestrator.agent_file import Caps
from tutti.tasks.agents.orchestrator.evidence import (
    CUT,
    SEPARATOR,
    FailureNote,
    Note,
    ProgramNote,
    RefusedAnswer,
    SearchNote,
    documents,
    evidence,
    shortened,
)
from tutti.tasks.agents.tools.retrieve import Hit


def searched(*texts: str, query: str = "q") -> SearchNote:
    """Return a search note whose documents are ordered best first."""
    hits = tuple(Hit(f"d-{text[:5]}", text, 1 / place) for place, text in enumerate(texts, 1))
    return SearchNote("search-1", (query,), hits)


def tokens(text: str) -> float:
    return len(text) / 4


def test_documents_stand_worst_first() -> None:
    """The best document of the last search is nearest to the end, and a document that is returned
    again moves to its new place."""
    notes: list[Note] = [searched("best", "good", "poor"), searched("better", "poor")]
    assert [hit.text for hit in documents(notes)] == ["good", "best", "poor", "better"]


def test_code_stands_with_its_output_and_its_error() -> None:
    """The reference discarded stderr, and a program without output left no trace."""
    notes: list[Note] = [
        ProgramNote("reasoner-1", "1/0", "Traceback\nZeroDivisionError: division by zero", "error"),
        ProgramNote("reasoner-2", "x = 1", "", "ok"),
        RefusedAnswer("answer-2", "41", "answer-1: off by one"),
        FailureNote("answer x", "no such expert"),
    ]
    text = evidence(notes, Caps(), "problem", tokens)
    order = ["1/0", "it ended: error", "ZeroDivisionError", "x = 1", "(nothing was printed)"]
    order += ["answer-2: 41", "off by one", "no such expert"]
    places = [text.index(each) for each in order]
    assert places == sorted(places)


def test_programs_outlive_documents_and_the_best_document_outlives_the_worst() -> None:
    notes: list[Note] = [
        searched("best " * 20, "worst " * 20),
        ProgramNote("reasoner-1", "print(1)", "1", "ok"),
    ]
    whole = evidence(notes, Caps(), "", tokens)
    assert "worst" in whole and whole.index("worst w") < whole.index("best b")
    less = evidence(notes, Caps(total_tokens=75), "", tokens)
    assert "worst" not in less and "best best" in less and "print(1)" in less
    least = evidence(notes, Caps(total_tokens=35), "", tokens)
    assert "best best" not in least and "print(1)" in least
    assert evidence(notes, Caps(total_tokens=35), "x" * 400, tokens) == ""


def test_each_cap_counts() -> None:
    """Answers have their own cap, answers and programs share the work cap, and documents are capped
    by characters."""
    answers = [RefusedAnswer("answer-1", f"number {n}", "no") for n in range(20)]
    text = evidence(answers, Caps(answers_tokens=30), "", tokens)
    assert "number 19" in text and "number 5" not in text
    runs = [ProgramNote("r", f"print({n})", str(n), "ok") for n in range(20)]
    both = evidence([*answers, *runs], Caps(answers_tokens=30, work_tokens=80), "", tokens)
    assert "number 19" in both and "print(19)" in both and "print(10)" not in both
    short = evidence([searched("word " * 100)], Caps(document_chars=50), "", tokens)
    assert len(short) < 120 and CUT.strip() in short


@pytest.mark.parametrize("cap", ["answers_tokens", "work_tokens", "total_tokens"])
def test_a_cap_is_kept_to_the_token(cap: str) -> None:
    """A text exactly at the cap stays whole; with one token less its earliest piece is removed."""
    notes = [RefusedAnswer("answer-1", f"number {n}", "no") for n in range(6)]
    whole = evidence(notes, Caps(), "", len)
    size = len(SEPARATOR + whole) if cap != "total_tokens" else len(whole) + len(SEPARATOR)
    assert evidence(notes, Caps.model_validate({cap: size}), "", len) == whole
    less = evidence(notes, Caps.model_validate({cap: size - len(SEPARATOR) - 1}), "", len)
    assert "number 0" not in less and "number 1" in less
    for half in (size // 2, size // 3):
        assert len(evidence(notes, Caps.model_validate({cap: half}), "", len)) <= half


NOTES = st.lists(
    st.one_of(
        st.builds(searched, st.text(max_size=300), st.text(max_size=60)),
        st.builds(
            ProgramNote, st.just("r"), st.text(max_size=80), st.text(max_size=200), st.just("ok")
        ),
        st.builds(RefusedAnswer, st.just("a"), st.text(max_size=80), st.text(max_size=80)),
        st.builds(FailureNote, st.text(max_size=40), st.text(max_size=80)),
    ),
    max_size=8,
)


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(NOTES, st.integers(1, 300), st.integers(1, 300), st.text(max_size=100))
def test_the_text_never_takes_more_than_its_caps(
    notes: list[Note], work: int, total: int, problem: str
) -> None:
    """Headings and separators count towards the caps."""
    text = evidence(notes, Caps(work_tokens=work, total_tokens=total), problem, tokens)
    assert not text or tokens(text) + tokens(problem) <= total
    assert evidence(notes, Caps(), problem, tokens).count("it ended: ok") >= text.count(
        "it ended: ok"
    )


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(st.text(max_size=400), st.integers(1, 200), st.sampled_from([0.0, 0.5]))
def test_what_is_cut_is_cut_between_characters_and_says_so(
    text: str, room: int, tail: float
) -> None:
    """The reference decoded and joined token by token, which can split a character."""
    cut = shortened(text, len, room, tail)
    assert len(cut) <= max(room, 0)
    if cut != text:
        assert cut == "" or CUT in cut
        start, _, end = cut.partition(CUT)
        assert text.startswith(start) and text.endswith(end)
        assert cut.encode() or not cut  # no half of a pair


@pytest.mark.parametrize("room", [20, 37, 55])
def test_cuts_fall_between_words(room: int) -> None:
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu"
    start, _, end = shortened(words, len, room).partition(CUT)
    assert {*start.split(), *end.split()} <= set(words.split())
