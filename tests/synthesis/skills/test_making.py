"""Tests of a labelled set: its tasks are unchanged, and SQL groups their attempts by skill and
level."""

from pathlib import Path

import pytest

from tests.synthesis.measured import enter_attempts, lending_set, tasks_of
from tutti import storage
from tutti.errors import UsageError
from tutti.tasks.benchmarks import Source, select
from tutti.tasks.reporting.task_set import build_task_set_report
from tutti.tasks.synthesis.domains import domain_benchmark
from tutti.tasks.synthesis.skills import LabelRequest, LabelSource
from tutti.tasks.task_sets import make_set

BY_SKILL = """
select s.slots ->> 'skill' as skill, count(*) as n, count(*) filter (a.correct) as solved
from attempts a join tasks s on s.task_id = a.task_id and s.task_set_id = $id
group by all order by all
"""


async def test_skills_by_attributes_group_the_attempts(catalog: storage.Catalog) -> None:
    """The attempts were made before the skills existed; values with few tasks are merged."""
    made = await lending_set(catalog, 30)
    tasks = tasks_of(catalog, made)
    splits = [task.split for task in tasks]
    enter_attempts(catalog, tasks, {n: (True, False) for n in range(30)})
    rare = min(set(splits), key=splits.count)
    least = splits.count(rare) + 1
    request = LabelRequest(task_set=made, skills=("split",), least_tasks=least)
    labelled = await make_set(LabelSource(request, catalog), catalog)
    assert labelled != made and await make_set(LabelSource(request, catalog), catalog) == labelled
    after = tasks_of(catalog, labelled)
    assert [each.task_id for each in after] == [each.task_id for each in tasks]
    wanted = ["other" if splits.count(each) < least else each for each in splits]
    assert [each.attributes["skill"] for each in after] == wanted
    rows = storage.query(BY_SKILL, catalog.home, {"id": labelled})
    assert {row["skill"]: row["n"] for row in rows} == {
        each: 2 * wanted.count(each) for each in set(wanted)
    }
    assert all(row["solved"] * 2 == row["n"] for row in rows)
    entry = catalog.artifact(labelled)
    assert entry is not None and entry["detail"]["merged"][rare] == "other"


async def test_levels_are_stored_shown_and_selected(
    catalog: storage.Catalog, tmp_path: Path
) -> None:
    """Levels can be selected by `where` in a run and are on the page; an existing skill is kept."""
    made = await lending_set(catalog, 30)
    tasks = tasks_of(catalog, made)
    known = {n: n for n, task in enumerate(tasks) if task.split == "train"}
    hard, easy, open_one = list(known)[:3]
    enter_attempts(
        catalog, tasks, {hard: [False] * 9, easy: [True] * 9, open_one: [True, False, True]}
    )
    skills = await make_set(
        LabelSource(LabelRequest(task_set=made, skills=("template",)), catalog), catalog
    )
    labelled = await make_set(
        LabelSource(LabelRequest(task_set=skills, difficulty=True), catalog), catalog
    )
    after = tasks_of(catalog, labelled)
    found = [after[n].attributes for n in (hard, easy, open_one)]
    assert [each["level"] for each in found] == ["hard", "easy", "unknown"]
    assert found[0]["attempts"] == "9" and float(found[0]["rate_high"]) < 1 / 3
    assert all(each.attributes["skill"] == tasks[0].template for each in after)
    folder = catalog.home.artifact_folder(labelled)
    items = domain_benchmark("x", folder, "train").load(Source(split="train"))
    (one,) = select(items, where="level = 'hard'")
    assert one.key == tasks[hard].task_id
    with storage.connect(catalog.home) as connection:
        page = build_task_set_report(connection, labelled, tmp_path / "page").page.read_text()
    assert "Pass rate by skill" in page and "Levels" in page
    assert "55.6 %" in page, "of the three tasks' rates: 0, 1, 2/3"
    entry = catalog.artifact(labelled)
    assert entry is not None
    assert entry["detail"]["levels"] == {"hard": 1, "easy": 1, "unknown": 28}


async def test_more_attempts_make_another_set(catalog: storage.Catalog) -> None:
    made = await lending_set(catalog, 6)
    request = LabelRequest(task_set=made, difficulty=True)
    first = await make_set(LabelSource(request, catalog), catalog)
    assert await make_set(LabelSource(request, catalog), catalog) == first
    enter_attempts(catalog, tasks_of(catalog, made), {0: [True] * 9})
    second = await make_set(LabelSource(request, catalog), catalog)
    assert second != first
    of_another = LabelRequest(task_set=made, difficulty=True, models=("other",))
    assert await make_set(LabelSource(of_another, catalog), catalog) == first, "the same labels"


async def test_what_cannot_be_labelled_is_said(catalog: storage.Catalog) -> None:
    made = await lending_set(catalog, 6)
    with pytest.raises(UsageError, match="--skills colour: no such attribute; there are template"):
        await make_set(
            LabelSource(LabelRequest(task_set=made, skills=("colour",)), catalog), catalog
        )
    with pytest.raises(UsageError, match="no task set 'task_set:9' of a domain"):
        await make_set(
            LabelSource(LabelRequest(task_set="task_set:9", difficulty=True), catalog), catalog
        )
    with pytest.raises(ValueError, match="give one of them"):
        LabelRequest(task_set=made)
    with pytest.raises(ValueError, match="attributes or a teacher, not both"):
        LabelRequest(task_set=made, skills=("template",), teacher="big")
    with pytest.raises(ValueError, match=r"hard_to: 0\.9 is above easy_from"):
        LabelRequest(task_set=made, difficulty=True, hard_to=0.9)
