"""Tests of contamination: a question in the texts is detected in any form, others are not, and a
judge's verdict decides if there is a judge."""

import json
from pathlib import Path

import pytest

from tutti.errors import UsageError
from tutti.storage import Catalog, Home
from tutti.tasks.benchmarks import Task
from tutti.tasks.scoring import JudgeSettings
from tutti.tasks.sweeps.analysis.contamination import check_contamination, read_texts

QUESTION = (
    "A farmer sells forty two baskets of plums at three markets and keeps a third of the money for "
    "seeds. How much is left when a basket costs five crowns?"
)
OTHERS = [f"How many trains leave platform {n} before noon on day {n * 7}?" for n in range(40)]


def task(question: str, name: str = "q") -> Task:
    return Task(name, {"question": question}, {"answer": "1"})


class Judge:
    """Judge with a fixed reply that counts its calls."""

    def __init__(self, word: str) -> None:
        self.word, self.asked = word, 0

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        """Return the fixed reply."""
        self.asked += 1
        return self.word, f"call-{self.asked}"


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (QUESTION, {"same", "words", "near"}),
        (f"  {QUESTION.upper()} ", {"same", "words", "near"}),
        (f"Here is one: {QUESTION} The answer is 140.", {"words", "near"}),
        (QUESTION.replace("farmer", "gardener"), {"near"}),
    ],
)
async def test_a_question_is_found_however_it_stands_there(text: str, how: set[str]) -> None:
    """The question is a whole text, part of a longer one, or has one word changed."""
    (found,) = await check_contamination([task(QUESTION)], [*OTHERS, text])
    assert found.contaminated and set(found.how) == how
    assert found.similar[0][0] == text


async def test_others_are_not() -> None:
    """The other texts are a question of another subject and one of a few common words."""
    tasks = [task(QUESTION), task("What is the answer?", "r")]
    found = await check_contamination(tasks, OTHERS)
    assert [each.contaminated for each in found] == [False, False]


async def test_a_judge_decides_but_for_equal_texts() -> None:
    """Only `True` counts, for the three most similar texts; equal texts are not sent to the
    judge."""
    near = QUESTION.replace("farmer", "gardener")
    for word, counts in (("True", True), ("False", False), ("It is True.", False)):
        judge = Judge(word)
        (found,) = await check_contamination([task(QUESTION)], [*OTHERS, near], judge)
        assert found.contaminated is counts and ("judge" in found.how) is counts
        assert judge.asked == len(found.similar) == len(found.replies) >= 1
    judge = Judge("False")
    (found,) = await check_contamination([task(QUESTION)], [QUESTION], judge)
    assert found.contaminated and judge.asked == 0


class FirstIs:
    """Judge that replies True if the question comes first."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        """Return a reply by the order of the two texts."""
        self.asked.append(prompt.index("gardener") < prompt.index("farmer"))
        return str(self.asked[-1]), "call"


async def test_both_ways_asks_of_each_text_twice() -> None:
    """As in NeMo-Skills, the task comes first and then the text; one True is sufficient."""
    near = QUESTION.replace("farmer", "gardener")
    (once,) = await check_contamination([task(QUESTION)], [near], judge := FirstIs())
    assert judge.asked == [False] and not once.contaminated
    judge = FirstIs()
    (twice,) = await check_contamination([task(QUESTION)], [near], judge, both_ways=True)
    assert judge.asked == [False, True] and twice.contaminated
    assert twice.row()["all_generations"] == ["False", "True"]


async def test_the_row_has_nemo_skills_names() -> None:
    """The fields are `contaminated` and `all_generations`."""
    (found,) = await check_contamination([task(QUESTION)], [QUESTION[:-1]], Judge("True"))
    row = json.loads(json.dumps(found.row()))
    assert row["contaminated"] is True and row["all_generations"] == ["True"]


def test_texts_of_files(tmp_path: Path) -> None:
    """Messages, text fields and documents are read; a row without text is reported."""
    catalog = Catalog(Home(tmp_path))
    rows = [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"problem": "c", "answer": "no"},
        {"text": "d"},
    ]
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_texts(str(file), catalog) == ["a", "b", "c", "d"]
    (tmp_path / "notes.md").write_text("# Title\n\nA note.\n")
    assert "A note." in read_texts(str(tmp_path / "notes.md"), catalog)[0]
    file.write_text('{"text": "a"}\n{"other": 1}\n')
    with pytest.raises(UsageError, match=r"train.jsonl:2: none of messages, text"):
        read_texts(str(file), catalog)
    with pytest.raises(UsageError, match="no such file, and no artifact"):
        read_texts("training_set:0123", catalog)


async def test_without_texts_nothing_is_said() -> None:
    """Zero of zero is no result."""
    with pytest.raises(UsageError, match="no text to compare with"):
        await check_contamination([task(QUESTION)], [])
