"""Tests of NeMo-Skills' files written from the store: metrics by its definitions, and reimport."""

import itertools
import json
import math
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.exchange.base.imported import ImportedAttempt
from tutti.tasks.exchange.nemo_skills import BenchmarkMetrics, WrittenRun, write_run
from tutti.tasks.exchange.nemo_skills.read import read

Row = dict[str, Any]


def entry(score: float, answer: str | None = "a", **more: Any) -> Row:
    return {"symbolic_correct": score, "predicted_answer": answer, **more}


def blocks(*tasks: list[Row]) -> dict[str, dict[str, Any]]:
    found = BenchmarkMetrics()
    for rows in tasks:
        found.add(rows)
    return found.blocks()


def test_the_blocks_and_the_scale_of_their_statistics() -> None:
    """Scores of three tasks with four seeds are in percent, their statistics are shares."""
    scores = ([1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 1])
    found = blocks(*[[entry(score, str(score)) for score in each] for each in scores])
    averages = [f"pass@1[avg-of-{k}]" for k in (2, 3, 4)]
    names = {f"pass@{k}" for k in (1, 2, 3, 4)} | {f"majority@{k}" for k in (2, 3, 4)}
    assert set(found) == names | set(averages)
    assert found["pass@1"]["symbolic_correct"] == pytest.approx(100 * 7 / 12)
    assert found["pass@2"]["symbolic_correct"] == pytest.approx(100 * (5 / 6 + 5 / 6 + 1) / 3)
    # Of the first two seeds the second task's votes are right; the others' tie.
    assert found["majority@2"]["symbolic_correct"] == pytest.approx(100 * (0.5 + 1 + 0.5) / 3)
    last = found["pass@1[avg-of-4]"]
    assert last["symbolic_correct"] == pytest.approx(100 * 7 / 12)
    statistics = last["symbolic_correct_statistics"]
    across = math.sqrt((3 * (2 / 3 - 7 / 12) ** 2 + (1 / 3 - 7 / 12) ** 2) / 3)
    assert statistics["avg"] == pytest.approx(7 / 12)
    assert statistics["std_dev_across_runs"] == pytest.approx(across)
    assert statistics["std_err_across_runs"] == pytest.approx(across / 2)
    assert statistics["avg_sample_std_dev"] == pytest.approx((2 * math.sqrt(1 / 3) + 0.5) / 3)
    assert [n for n in found if "symbolic_correct_statistics" in found[n]] == averages
    assert [n for n in found if "answer_tokens_statistics" in found[n]] == averages
    assert all(found[name]["num_entries"] == 3 for name in found)


def test_one_seed_has_pass_at_1_alone() -> None:
    found = blocks([entry(1.0, num_generated_tokens=9)], [entry(0.0, None)])
    assert found == {
        "pass@1": {
            "num_entries": 2,
            "avg_tokens": 4,
            "symbolic_correct": 50.0,
            "no_answer": 50.0,
        }
    }


def test_degrees_take_the_best_of_the_first_k() -> None:
    found = blocks([entry(0.25), entry(0.75), entry(0.5)])
    assert found["pass@1"]["symbolic_correct"] == 25
    assert found["pass@3"]["symbolic_correct"] == 75


def test_another_number_of_seeds_is_refused() -> None:
    found = BenchmarkMetrics()
    found.add([entry(1), entry(0)])
    with pytest.raises(ValueError, match="3 rows of a task, 2"):
        found.add([entry(1)] * 3)


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from(["a", "b", None])),
            min_size=3,
            max_size=3,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_the_figures_by_listing(tasks: list[list[tuple[float, str | None]]]) -> None:
    """pass@k is the mean over subsets, increases with k, and bounds every other figure."""
    found = blocks(*[[entry(*each) for each in rows] for rows in tasks])
    for k in (1, 2, 3):
        listed = [
            fmean(max(score for score, _ in some) for some in itertools.combinations(rows, k))
            for rows in tasks
        ]
        assert found[f"pass@{k}"]["symbolic_correct"] == pytest.approx(100 * fmean(listed))
    silent = fmean(all(answer is None for _, answer in rows) for rows in tasks)
    assert found["majority@3"]["no_answer"] == pytest.approx(100 * silent)
    best = found["pass@3"]["symbolic_correct"]
    for name in ("pass@1[avg-of-3]", "majority@3", "pass@2"):
        assert found[name]["symbolic_correct"] <= best + 1e-9


def attempt(task: str, trial: int, **more: Any) -> Row:
    row: Row = {"sweep_id": "s", "cell_id": "c", "attempt_id": f"{task}-{trial}", "task_id": task}
    row |= {"sample_id": f"{task}-{trial}", "trial": trial, "attempt": 1, "status": "ok"}
    row |= {"benchmark": "gsm8k", "model": "m", "policy": "p", "concurrency": 1, "repeat": 0}
    row |= {"score": 1.0, "correct": True, "completion_tokens": 7, "prompt_tokens": 3}
    return row | {"started_at": cat.now(), "ended_at": cat.now()} | more


def export(root: Path, attempts: list[Row], scorer: str = "numeric") -> WrittenRun:
    """Return the files written for a cell with these attempts, each of which contains its task's
    name."""
    home = storage.Home(root / "home")
    shared = ("sweep_id", "cell_id", "attempt_id")
    keys = [{name: row[name] for name in shared} for row in attempts]
    messages: list[Row] = [
        key | {"position": place, "role": role, "content": f"{role} {key['attempt_id']}"}
        for key in keys
        for place, role in enumerate(("system", "user", "assistant"))
    ]
    scores: list[Row] = [
        key
        | {"scorer": scorer, "scorer_version": "1", "value": row["score"]}
        | {"correct": row["correct"], "answer": "4", "scored_at": cat.now()}
        for key, row in zip(keys, attempts, strict=True)
    ]
    tasks = [
        {"task_set_id": "task_set:1", "task_id": task, "family": "gsm8k"}
        | {"answer": '{"answer": "4"}', "slots": json.dumps({"subject": f"of {task}"})}
        for task in sorted({row["task_id"] for row in attempts})
    ]
    rows = {"attempts": attempts, "messages": messages, "scores": scores, "tasks": tasks}
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, rows)
        catalog.upsert(cat.sweeps, {"sweep_id": "s", "name": "s", "spec": "{}"})
        cell: Row = {"cell_id": "c", "sweep_id": "s", "benchmark": "gsm8k", "model": "m"}
        cell |= {"policy": "p", "concurrency": 1, "repeat": 0, "position": 0, "index_id": ""}
        cell |= {"task_set_id": "task_set:1", "samples": len(attempts), "status": "finished"}
        catalog.upsert(cat.cells, cell)
        catalog.enter_artifact("task_set:1", {"scorer": scorer, "subsets": "subject"}, [])
    with closing(storage.connect(home)) as connection:
        return write_run(connection, [("c", "gsm8k")], root / "out")


def test_files_metrics_and_subsets(tmp_path: Path) -> None:
    """Tasks with all trials are written in the same order in every file; the others are counted,
    not scored as wrong."""
    wrong = {"score": 0.0, "correct": False}
    attempts = [
        *(attempt("b", nth) for nth in range(2)),
        *(attempt("a", nth, **(wrong if nth else {})) for nth in range(2)),
        attempt("c", 0),
        attempt("c", 1, status="infra_error"),
    ]
    written = export(tmp_path, attempts)
    assert (written.rows, written.left_out) == (4, {"gsm8k": 1})
    results = tmp_path / "out" / "eval-results"
    names = ["gsm8k/output-rs0.jsonl", "gsm8k/output-rs1.jsonl", "metrics.json"]
    assert written.files == [results / name for name in names]
    rows = [list(map(json.loads, each.read_text().splitlines())) for each in written.files[:2]]
    assert [[row["id"] for row in each] for each in rows] == [["a", "b"], ["a", "b"]]
    assert rows[1][0] | {"generation_start_time": 0, "generation_end_time": 0} == {
        "id": "a",
        "problem": "user a-1",
        "generation": "assistant a-1",
        "predicted_answer": "4",
        "expected_answer": "4",
        "symbolic_correct": False,
        "num_input_tokens": 3,
        "num_generated_tokens": 7,
        "generation_start_time": 0,
        "generation_end_time": 0,
        "generation_time": rows[1][0]["generation_time"],
        "subset_for_metrics": "of a",
    }
    metrics = json.loads(written.files[2].read_text())
    assert set(metrics) == {"gsm8k", "gsm8k-of a", "gsm8k-of b"}
    assert metrics["gsm8k"]["pass@1"]["symbolic_correct"] == 75
    assert metrics["gsm8k-of a"]["pass@2"]["symbolic_correct"] == 100
    assert metrics["gsm8k"]["pass@1"]["avg_tokens"] == 7


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    wrong = {"score": 0.0, "correct": False}
    attempts = [attempt(t, nth, **(wrong if nth == 1 else {})) for t in "ab" for nth in range(3)]
    export(tmp_path, attempts)
    found = [each for each in read(tmp_path / "out", "run") if isinstance(each, ImportedAttempt)]
    told = {(each.task_id, each.trial): each.outcome for each in found}
    assert {key: outcome["correct"] for key, outcome in told.items()} == {
        (task, nth): nth != 1 for task in "ab" for nth in range(3)
    }
    assert {outcome["answer"] for outcome in told.values()} == {"4"}
    assert {outcome["completion_tokens"] for outcome in told.values()} == {7}


def test_a_judges_verdict_is_a_judgement(tmp_path: Path) -> None:
    written = export(tmp_path, [attempt("a", 0)], scorer="judge")
    assert [file.name for file in written.files] == ["output.jsonl", "metrics.json"]
    row = json.loads(written.files[0].read_text())
    assert row["judgement"] == "Judgement: Yes" and "symbolic_correct" not in row
    metrics = json.loads(written.files[1].read_text())
    assert metrics["gsm8k"]["pass@1"]["judge_correct"] == 100


def test_simpleqas_metrics_are_its_verdicts() -> None:
    metrics = BenchmarkMetrics()
    for letters in ("AA", "AB", "CC"):
        metrics.add([{"judgement": each, "judge_correct": each == "A"} for each in letters])
    found = metrics.blocks()
    first = {name: value for name, value in found["pass@1"].items() if name != "num_entries"}
    assert first == pytest.approx(
        {
            "correct": 50.0,
            "incorrect": 100 / 6,
            "not_attempted": 100 / 3,
            "accuracy_given_attempted": 75.0,
            "f1": 60.0,
        }
    )
    assert found["pass@2"]["correct"] == pytest.approx(200 / 3)
    assert found["majority@2"]["not_attempted"] == pytest.approx(100 / 3)
    assert "correct_statistics" in found["pass@1[avg-of-2]"]


def test_a_mean_score_is_a_degree(tmp_path: Path) -> None:
    half = {"score": 0.5, "correct": False}
    written = export(tmp_path, [attempt("a", 0, **half)], scorer="rubric")
    metrics = json.loads(written.files[-1].read_text())
    assert metrics["gsm8k"]["pass@1"]["symbolic_correct"] == 50


def test_tokens_are_the_answers_where_a_row_does_not_part_them() -> None:
    """NeMo-Skills' summary has both statistics in each average."""
    metrics = BenchmarkMetrics()
    parted = {"num_reasoning_tokens": 6, "num_answer_tokens": 4, "num_generated_tokens": 10}
    metrics.add([{"symbolic_correct": True} | parted] * 2)
    metrics.add([{"symbolic_correct": True, "num_generated_tokens": 10}] * 2)
    found = metrics.blocks()["pass@1[avg-of-2]"]
    assert found["reasoning_tokens_statistics"]["avg"] == 3.0
    assert found["answer_tokens_statistics"]["avg"] == 7.0
