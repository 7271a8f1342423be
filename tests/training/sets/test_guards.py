"""Tests that no attempt of a held-out task is trained on, for any id and any text around its
question."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.training.sets.recorded import task
from tutti.storage import COUNTED
from tutti.tasks.retrieval import Embedder
from tutti.tasks.training.sets.guards import HeldOut

LONG = "which argument of the function open in the module io comes after all of the others"


def reason(
    attempt: dict[str, Any], tasks: list[Any], allowed: tuple[str, ...] = ("train",)
) -> str | None:
    return HeldOut(tasks, frozenset(allowed)).of_attempts([attempt], {}).get("x")


def attempt(task_id: str | None, status: str = "ok") -> dict[str, Any]:
    return {"attempt_id": "x", "task_id": task_id, "status": status, "is_repaired": False}


@pytest.mark.parametrize("status", ["infra_error", "scorer_error", "cancelled"])
def test_what_failed_for_reasons_not_the_models_is_left_out(status: str) -> None:
    tasks = [task("a", "train")]
    assert reason(attempt("a", status), tasks) == f"status {status}"
    assert [reason(attempt("a", each), tasks) for each in COUNTED] == [None] * 3


def test_a_task_is_open_only_if_all_its_splits_are() -> None:
    """A task that another task set holds out is held out; a task of no task set is not known to be
    open."""
    tasks = [task("a", "train"), task("a", "test", task_set="task_set:2"), task("b", "train")]
    assert reason(attempt("a"), tasks) == "held-out split test"
    assert reason(attempt("c"), tasks) == reason(attempt(None), tasks) == "task of no known split"
    assert reason(attempt("a"), tasks, ("train", "test")) is None


COPY, NEAR = "question of a held-out task", "question near a held-out one"


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (LONG, COPY),
        (f"Now tell me: {LONG.upper()}?", COPY),
        (LONG.replace("the function", "the very handy function"), NEAR),
        (LONG.replace("module", "package"), None),
        (LONG.replace("after", "before"), None),
        ("what is held", COPY),
        ("Please tell me: what is held?", COPY),
    ],
)
def test_a_question_that_copies_a_held_out_one_is_left_out(question: str, why: str | None) -> None:
    """A copy is unchanged, in any case and punctuation, part of a longer text, or with additional
    words; a question with another meaning is kept."""
    tasks = [task("long", "test", LONG), task("short", "test", "What is held?")]
    assert reason(attempt("a"), [*tasks, task("a", "train", question)]) == why


def test_a_benchmarks_prompt_hides_no_question() -> None:
    """A held-out question is stored as it was sent, with the words around it."""
    names = "Ann Bob Eve Kim Lee".split()
    asked = [
        f"{name} has {n} old coins and sells 3. How many are left?"
        for n, name in enumerate(names, 20)
    ]
    tasks = [
        task(f"t{n}", "test", f"Solve this. {q} Put it in a box.") for n, q in enumerate(asked)
    ]
    found = HeldOut(tasks, frozenset({"train"})).of_texts(
        {
            "copy": [f"Please: {asked[2]}"],
            "other": [asked[2].replace("Eve", "Zoe").replace("22", "31")],
        }
    )
    assert found == {"copy": COPY}


def test_a_task_without_a_question_is_judged_by_its_split() -> None:
    """Two tasks without questions do not count as equal."""
    bare = {"question": None}
    assert reason(attempt("a"), [task("a", "train") | bare, task("b", "test") | bare]) is None


class Meaning:
    """Embedder for which all questions about rivers are similar, and others are not."""

    dimensions = 2

    def describe(self) -> dict[str, Any]:
        return {"model": "meaning"}

    def embed(self, texts: Any) -> Any:
        return np.array([[1, 0] if "Rhine" in text else [0, 1] for text in texts], np.float32)

    def save(self, folder: Any) -> None:
        raise NotImplementedError


def test_an_embedder_finds_rewordings_with_the_same_numbers_and_names() -> None:
    """Without an embedder that guard is reported as not run, and never as passed."""
    tasks = [task("t", "test", "Tell me how long the river Rhine is in 3 lands")]
    texts = {"same": ["The course of the Rhine in 3 lands has what length?"]}
    texts["other"] = ["Tell me how wide the Rhine is in 4 places"]
    embedder: Embedder = Meaning()
    blind, seeing = (HeldOut(tasks, frozenset({"train"}), (), each) for each in (None, embedder))
    assert blind.of_texts(texts) == {} and "not run" in blind.guards["rewordings"]
    assert seeing.of_texts(texts) == {"same": "held-out question reworded"}
    assert "meaning" in seeing.guards["rewordings"]
