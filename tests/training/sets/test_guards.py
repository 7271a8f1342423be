"""No attempt of a held-out task is trained on, whatever its id or its question's surroundings."""

from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")
from hypothesis import given
from hypothesis import strategies as st

from tests.training.sets.recorded import task
from tutti.storage import COUNTED
from tutti.tasks.training.sets.guards import GRAM, HeldOut, grams_of

LONG = "which argument of the function open in the module io comes after all of the others"
words = st.lists(st.sampled_from("ape bee cat dog eel fox".split()), min_size=1, max_size=30)


def attempt(task_id: str | None, status: str = "ok") -> dict[str, Any]:
    return {"task_id": task_id, "status": status, "is_repaired": False}


@pytest.mark.parametrize("status", ["infra_error", "scorer_error", "cancelled"])
def test_what_failed_for_reasons_not_the_models_is_left_out(status: str) -> None:
    guard = HeldOut.of([task("a", "train")], ["train"])
    assert guard.reason(attempt("a", status)) == f"status {status}"
    assert [guard.reason(attempt("a", each)) for each in COUNTED] == [None] * 3


def test_a_task_is_open_only_if_all_its_splits_are() -> None:
    """A task that another task set holds out is held out; one of no task set is not known to be
    open."""
    tasks = [task("a", "train"), task("a", "test", task_set="task_set:2"), task("b", "train")]
    guard = HeldOut.of(tasks, ["train"])
    assert guard.reason(attempt("a")) == "held-out split test"
    assert guard.reason(attempt("c")) == guard.reason(attempt(None)) == "task of no known split"
    assert HeldOut.of(tasks, ["train", "test"]).reason(attempt("a")) is None


@pytest.mark.parametrize(
    ("question", "left_out"),
    [
        (LONG, True),
        (f"Now tell me: {LONG.upper()}?", True),
        (" ".join(LONG.split()[: GRAM - 1]), False),
        (LONG.replace("module", "package"), False),
        ("what is held", True),
    ],
)
def test_a_question_that_repeats_a_held_out_one_is_left_out(question: str, left_out: bool) -> None:
    """13 words in a row, in any case and punctuation; of a shorter question all of it."""
    tasks = [task("long", "test", LONG), task("short", "test", "What is held?")]
    guard = HeldOut.of([*tasks, task("a", "train", question)], ["train"])
    assert guard.reason(attempt("a")) == ("question of a held-out task" if left_out else None)


def test_a_task_without_a_question_is_judged_by_its_split() -> None:
    """Two that have none are not the same question."""
    bare = {"question": None}
    tasks = [task("a", "train") | bare, task("b", "test") | bare]
    assert HeldOut.of(tasks, ["train"]).reason(attempt("a")) is None


@given(held=words, before=words, after=words)
def test_no_surroundings_hide_a_held_out_question(
    held: list[str], before: list[str], after: list[str]
) -> None:
    """Of 13 words or more; a shorter one is known only by itself."""
    question = grams_of(" ".join(held))
    assert question == grams_of(", ".join(held).upper())
    surrounded = grams_of(" ".join([*before, *held, *after]))
    assert question <= surrounded or len(held) < GRAM


@given(words)
def test_a_text_has_a_gram_for_each_place(text: list[str]) -> None:
    """And each is a run of its words."""
    grams = grams_of(" ".join(text))
    assert 1 <= len(grams) <= max(1, len(text) - GRAM + 1)
    assert all(each in " ".join(text) for each in grams)
    assert grams_of("  ?! ") == set()


def test_a_question_near_a_held_out_one_is_left_out_where_that_is_asked() -> None:
    """Reworded, it shares no run of 13 words; another question of the same form stays."""
    rows = [
        {"task_id": "test", "split": "test", "question": "What is the capital of Norway?"},
        {"task_id": "same", "split": "train", "question": "The capital of Norway is what?"},
        {"task_id": "other", "split": "train", "question": "How long is the river Rhine?"},
    ]
    attempts = [attempt(name) for name in ("same", "other")]
    plain = HeldOut.of(rows, ["train"])
    assert [plain.reason(each) for each in attempts] == [None, None]
    near = plain.with_near(0.6)
    assert [near.reason(each) for each in attempts] == ["question near a held-out one", None]
