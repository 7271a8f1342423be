"""Tests of skills by a teacher on a scripted endpoint: label, merge, assign; wrong responses are
returned.

No strong model was available: the responses are computed by rule from the requests.
"""

import re
from typing import Any

import pytest

from tests.synthesis.measured import lending_set, tasks_of
from tests.synthesis.teacher.conftest import QUICK
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti import storage
from tutti.tasks.synthesis import TeacherPool
from tutti.tasks.synthesis.skills import LabelRequest, LabelSource
from tutti.tasks.synthesis.skills.by_teacher import Skill, Skills, skills_reason
from tutti.tasks.synthesis.teacher import TeacherBudget, TeacherEndpoint, TeacherFailed
from tutti.tasks.synthesis.teacher.faults import BudgetSpent
from tutti.tasks.task_sets import make_set

NUMBERED = re.compile(r"^(\d+)\. ", re.MULTILINE)
LABEL = re.compile(r"^- (.+) \(\d+\)$", re.MULTILINE)
MERGED = {"even": "Even numbers", "odd": "Odd numbers"}


class Endpoint(ScriptedEndpoint):
    """Endpoint that labels tasks by their number's parity; the first `faults` responses are
    wrong."""

    faults: dict[str, list[Any]]

    def _next(self, name: str) -> Any:
        wrong = self.faults.get(name.split("-")[0], [])
        if wrong:
            return wrong.pop(0)
        asked = self.asked[-1][1]["messages"][0]["content"]
        if name == "merge":
            about = "It belongs here."
            names = LABEL.findall(asked)
            return {"skills": [
                {"name": skill, "about": about, "labels": [n for n in names if n.startswith(word)]}
                for word, skill in MERGED.items()
            ]}  # fmt: skip
        words = ["Even  One", "odd one"] if name.startswith("label") else list(MERGED.values())
        numbers = [int(each) for each in NUMBERED.findall(asked)]
        return {"items": [{"task": n, "name": words[n % 2]} for n in numbers]}


def endpoint(**faults: list[Any]) -> Endpoint:
    made = Endpoint({})
    made.faults = faults
    return made


def desk(at: ScriptedEndpoint, **budget: Any) -> TeacherPool:
    where = TeacherEndpoint(at.url, "m", call_s=5.0, retry=QUICK)
    return TeacherPool([where], [None], TeacherBudget(**budget), concurrency=1)


async def test_a_sample_is_labelled_and_the_rest_assigned(catalog: storage.Catalog) -> None:
    """For 50 tasks, two requests label 30, one merges, and one assigns 20; a second run reuses the
    set."""
    made = await lending_set(catalog, 50)
    request = LabelRequest(task_set=made, teacher="big", sample=30)
    async with serving(endpoint()) as at:
        labelled = await make_set(LabelSource(request, catalog, desk(at)), catalog)
        calls = at.calls()
        assert await make_set(LabelSource(request, catalog, desk(at)), catalog) == labelled
        assert at.calls() == calls == 4
    after = tasks_of(catalog, labelled)
    skills = [task.attributes["skill"] for task in after]
    assert len(skills) == 50 and set(skills) == set(MERGED.values())
    entry = catalog.artifact(labelled)
    assert entry is not None
    assert entry["detail"]["merged"] == {"even one": "Even numbers", "odd one": "Odd numbers"}
    assert {each["name"] for each in entry["detail"]["prompts"]} == {"label", "merge", "assign"}


async def test_wrong_answers_are_sent_back(catalog: storage.Catalog) -> None:
    """The faults are a missing task, a label in two skills, and an unknown skill."""
    made = await lending_set(catalog, 30)
    short = {"items": [{"task": 1, "name": "even"}]}
    twice = {"skills": [{"name": "A", "about": "", "labels": ["even one", "even one", "odd one"]}]}
    invented = {"items": [{"task": n, "name": "New"} for n in range(1, 11)]}
    wrong = endpoint(label=[short], merge=[twice], assign=[invented])
    async with serving(wrong) as at:
        request = LabelRequest(task_set=made, teacher="big", sample=20)
        labelled = await make_set(LabelSource(request, catalog, desk(at)), catalog)
        sent = [body["messages"][-1]["content"] for _, body, _ in at.asked]
    assert {task.attributes["skill"] for task in tasks_of(catalog, labelled)} == set(
        MERGED.values()
    )
    for why in ("task 2 must be there once", "belongs to 2 skills", "no skill is called 'New'"):
        assert any(why in each for each in sent)


async def test_what_the_teacher_does_not_answer_is_unassigned(catalog: storage.Catalog) -> None:
    made = await lending_set(catalog, 30)
    invented = {"items": [{"task": n, "name": "New"} for n in range(1, 11)]}
    async with serving(endpoint(assign=[invented, invented])) as at:
        request = LabelRequest(task_set=made, teacher="big", sample=20)
        labelled = await make_set(LabelSource(request, catalog, desk(at)), catalog)
    skills = [task.attributes["skill"] for task in tasks_of(catalog, labelled)]
    assert skills.count("unassigned") == 10
    entry = catalog.artifact(labelled)
    assert entry is not None and "no skill is called" in entry["detail"]["unassigned"]["assign-0"]


async def test_labels_that_stay_wrong_end_it_and_a_budget_can_go_on(
    catalog: storage.Catalog,
) -> None:
    made = await lending_set(catalog, 30)
    request = LabelRequest(task_set=made, teacher="big", sample=20)
    async with serving(endpoint()) as at:
        with pytest.raises(BudgetSpent):
            await make_set(LabelSource(request, catalog, desk(at, calls=2)), catalog)
        await make_set(LabelSource(request, catalog, desk(at)), catalog)
        assert max(at.answered.values()) == 1
    short = {"items": [{"task": 1, "name": "even"}]}
    again = LabelRequest(task_set=made, teacher="big", sample=15)
    async with serving(endpoint(label=[short, short])) as at:
        with pytest.raises(TeacherFailed, match="task 2 must be there once"):
            await make_set(LabelSource(again, catalog, desk(at)), catalog)


@pytest.mark.parametrize(
    ("skills", "said"),
    [
        ([("A", ["x", "y"])], ""),
        ([], "skills: 0; must be 1 to 2"),
        ([("A", ["x"]), ("B", ["y"]), ("C", [])], "skills: 3; must be 1 to 2"),
        ([("A", ["x"]), ("A", ["y"])], "'A' is there twice"),
        ([("", ["x", "y"])], "a name has 1 to 60 characters"),
        ([("A", ["x"])], "'y' belongs to 0 skills"),
        ([("A", ["x", "y", "z"])], "'z' is no label"),
    ],
)
def test_merged_skills_are_checked(skills: list[tuple[str, list[str]]], said: str) -> None:
    found = Skills(skills=tuple(Skill(name=n, about="", labels=tuple(ls)) for n, ls in skills))
    why = skills_reason({"x": 3, "y": 1}, 2, found)
    assert said in why and bool(why) == bool(said)
