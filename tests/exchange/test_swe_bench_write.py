"""Tests of predictions for SWE-bench's own program, and of its verdicts assigned to the stored
attempts."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.imported import write_json
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.exchange.base.imported import ImportedAttempt
from tutti.tasks.exchange.swe_bench import (
    AddedVerdicts,
    WrittenPredictions,
    add_verdicts,
    last_replies,
    stored_answers,
    write_predictions,
)
from tutti.tasks.exchange.swe_bench.read import read
from tutti.tasks.exchange.swe_bench.write import patch_in

Row = dict[str, Any]
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
IDS = ("a__a-1", "a__a-2", "a__a-3")
CELLS = {"c": ("m_p", "org/m")}


def attempt(task: str, trial: int = 0, **more: Any) -> Row:
    row: Row = {"sweep_id": "s", "cell_id": "c", "attempt_id": f"{task}/{trial}", "task_id": task}
    row |= {"sample_id": f"{task}/{trial}", "trial": trial, "attempt": 1, "status": "ok"}
    row |= {"benchmark": "swe", "model": "org/m", "policy": "p", "concurrency": 1, "repeat": 0}
    return row | {"started_at": cat.now(), "ended_at": cat.now(), "answer": DIFF} | more


def enter(catalog: storage.Catalog, *attempts: Row, slots: Row | None = None) -> None:
    """Store a sweep of one cell with these attempts; `slots` are fields of the tasks' rows."""
    shared = ("sweep_id", "cell_id", "attempt_id")
    messages: list[Row] = [
        {name: row[name] for name in shared}
        | {"position": 1, "role": "assistant", "content": f"I did it:\n```diff\n{DIFF}```\n"}
        for row in attempts
    ]
    tasks = [
        {"task_set_id": "task_set:1", "task_id": task, "slots": json.dumps(slots or {"id": task})}
        for task in sorted({row["task_id"] for row in attempts})
    ]
    rows = {"attempts": list(attempts), "messages": messages, "tasks": tasks}
    storage.commit(catalog, rows)
    catalog.upsert(cat.sweeps, {"sweep_id": "s", "name": "s", "spec": "{}"})
    cell: Row = {"cell_id": "c", "sweep_id": "s", "benchmark": "swe", "model": "org/m"}
    cell |= {"policy": "p", "concurrency": 1, "repeat": 0, "position": 0, "index_id": ""}
    cell |= {"task_set_id": "task_set:1", "samples": len(attempts), "status": "finished"}
    catalog.upsert(cat.cells, cell)


def export(catalog: storage.Catalog, folder: Path, force: bool = False) -> WrittenPredictions:
    with closing(storage.connect(catalog.home)) as connection:
        answers, replies = stored_answers(connection, "s"), last_replies(connection, "s")
    return write_predictions(answers, replies, CELLS, folder, force)


def report(folder: Path, resolved: tuple[str, ...], submitted: tuple[str, ...] = IDS) -> Path:
    """Write the report of a run in which `resolved` passed and the others did not."""
    said: Row = {"submitted_ids": submitted, "resolved_ids": resolved, "empty_patch_ids": []}
    said |= {"unresolved_ids": [id for id in submitted if id not in resolved], "error_ids": []}
    return write_json(folder / "org__m.night.json", said)


def verdicts(catalog: storage.Catalog) -> dict[str, Any]:
    """Return score and correctness of attempts by the program; the columns of `attempts` never
    change."""
    rows = storage.query("select attempt_id, value, correct from scores", catalog.home)
    return {row["attempt_id"]: (row["value"], row["correct"]) for row in rows}


def test_predictions_have_swebenchs_form(catalog: storage.Catalog, tmp_path: Path) -> None:
    """The patch is the answer's diff or that of the last reply; lost attempts are not submitted."""
    lost = attempt(IDS[2], status="infra_error")
    enter(catalog, attempt(IDS[0]), attempt(IDS[1], answer="done"), lost)
    done = export(catalog, tmp_path / "out")
    assert (done.files, done.predictions) == ([tmp_path / "out" / "preds.json"], 2)
    found = json.loads(done.files[0].read_text())
    assert found == {
        id: {"instance_id": id, "model_name_or_path": "org/m", "model_patch": DIFF}
        | {"attempt_id": f"{id}/0"}
        for id in IDS[:2]
    }
    with pytest.raises(storage.StoreError, match=r"preds\.json: exists already; --force"):
        export(catalog, tmp_path / "out")
    assert export(catalog, tmp_path / "out", force=True).predictions == 2


def test_of_a_sample_the_last_attempt_is_predicted(
    catalog: storage.Catalog, tmp_path: Path
) -> None:
    """A repeated sample is one prediction; further trials are predictions in separate files."""
    again = attempt(IDS[0], attempt=2, attempt_id="again", answer="```patch\n-x\n```")
    enter(catalog, attempt(IDS[0]), again, attempt(IDS[0], 1), attempt(IDS[1]))
    done = export(catalog, tmp_path)
    assert [file.parent.name for file in done.files] == ["trial-0", "trial-1"]
    first, second = (json.loads(file.read_text()) for file in done.files)
    assert set(first) == set(IDS[:2]) and set(second) == {IDS[0]}
    assert first[IDS[0]]["attempt_id"] == "again" and first[IDS[0]]["model_patch"] == "-x\n"


def test_tasks_without_an_instance_id_are_refused(catalog: storage.Catalog, tmp_path: Path) -> None:
    enter(catalog, attempt("7"))
    with pytest.raises(storage.StoreError, match="task '7' has no instance id of SWE-bench"):
        export(catalog, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_rows_field_names_the_instance(catalog: storage.Catalog, tmp_path: Path) -> None:
    enter(catalog, attempt("7"), slots={"id": "7", "instance_id": "instance_of_another_form"})
    (file,) = export(catalog, tmp_path).files
    assert list(json.loads(file.read_text())) == ["instance_of_another_form"]


def test_verdicts_are_added_once(catalog: storage.Catalog, tmp_path: Path) -> None:
    """The verdicts are rows of scores; no attempt is rewritten."""
    enter(catalog, *(attempt(id) for id in IDS[:2]), attempt(IDS[2], score=1.0, correct=True))
    file = report(tmp_path, (IDS[0],), (*IDS, "b__b-1"))
    done = add_verdicts(catalog, file, "s")
    assert done == AddedVerdicts(added=3, known=0, unmatched=["b__b-1"])
    own = storage.query("select score from attempts order by attempt_id", catalog.home)
    assert [row["score"] for row in own] == [None, None, 1.0]
    right, wrong = (1.0, True), (0.0, False)
    assert sorted(verdicts(catalog).values()) == [wrong, wrong, right]
    sql = "select scorer, value, correct, detail from scores order by attempt_id"
    rows = storage.query(sql, catalog.home)
    assert [(row["scorer"], row["correct"]) for row in rows] == [
        ("swebench", True),
        ("swebench", False),
        ("swebench", False),
    ]
    assert json.loads(rows[1]["detail"]) == {"outcome": "unresolved", "run": "night"}
    again = add_verdicts(catalog, file, "s")
    assert (again.added, again.known) == (0, 3)
    assert len(storage.query("select 1 from scores", catalog.home)) == 3


def test_of_several_trials_the_graded_one_has_the_verdict(
    catalog: storage.Catalog, tmp_path: Path
) -> None:
    enter(catalog, attempt(IDS[0], 0), attempt(IDS[0], 1))
    bare = report(tmp_path / "bare", (IDS[0],), IDS[:1])
    with pytest.raises(storage.StoreError, match=r"has 2 attempts in the sweep; put the preds"):
        add_verdicts(catalog, bare, "s")
    export(catalog, tmp_path)
    graded = report(tmp_path / "trial-1", (IDS[0],), IDS[:1])
    assert add_verdicts(catalog, graded, "s").added == 1
    assert verdicts(catalog) == {f"{IDS[0]}/1": (1.0, True)}
    (found,) = read(graded, "run")
    assert isinstance(found, ImportedAttempt) and found.origin == f"{IDS[0]}/1"


def test_what_does_not_belong_together_is_refused(catalog: storage.Catalog, tmp_path: Path) -> None:
    enter(catalog, attempt(IDS[0]))
    with pytest.raises(storage.StoreError, match="none of its instances"):
        add_verdicts(catalog, report(tmp_path, (), ("b__b-1",)), "s")
    with pytest.raises(storage.StoreError, match="no report of swebench"):
        add_verdicts(catalog, write_json(tmp_path / "x.json", {"a": 1}), "s")
    prediction = {"instance_id": IDS[0], "model_patch": DIFF, "attempt_id": "other"}
    write_json(tmp_path / "preds.json", {IDS[0]: prediction})
    with pytest.raises(storage.StoreError, match="is of attempt other"):
        add_verdicts(catalog, report(tmp_path, (), IDS[:1]), "s")
    assert storage.query("select 1 from scores", catalog.home) == []


@given(st.lists(st.sampled_from([" c", "+a", "-b", "+```", " ```diff", ""]), max_size=9))
def test_a_fenced_diff_is_found_whole(lines: list[str]) -> None:
    """Fences within a diff are preceded by their sign and do not end the block."""
    diff = "diff --git a/x b/x\n" + "".join(f"{line}\n" for line in lines)
    for text in (diff, f"Fixed.\n{diff}", f"```\n{diff}```\nDone.", f"See:\n```diff\n{diff}```"):
        assert patch_in(text) == diff
    assert patch_in("\n".join(lines)) is None
