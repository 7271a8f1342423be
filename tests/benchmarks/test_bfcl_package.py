"""Tests of the BFCL categories that its package runs: their tasks and the requirements of a suite
of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deployments.bfcl_standin import install_into
from tutti.tasks.benchmarks import Source, benchmark_named
from tutti.tasks.benchmarks.errors import BadRow
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError

TASK = {"id": "multi_turn_base_0", "question": [[{"role": "user", "content": "Add 1."}], []]}
TASK |= {"involved_classes": ["MathAPI", "GorillaFileSystem"]}


def write(folder: Path, category: str, *rows: dict[str, Any]) -> None:
    """Write one of the package's files."""
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / f"BFCL_v4_{category}.json").write_text(text)


def test_turns_are_items(tmp_path: Path) -> None:
    """Tasks can be selected by the number of turns and the classes."""
    write(tmp_path, "multi_turn_base", TASK)
    (task,) = benchmark_named("bfcl-multi-turn").load(Source(tmp_path), [])
    assert task.inputs == {"question": "Add 1."}
    classes = "GorillaFileSystem+MathAPI"
    assert task.attributes == {"category": "multi_turn_base", "turns": "2", "classes": classes}
    write(tmp_path, "multi_turn_base", TASK | {"question": []})
    with pytest.raises(BadRow, match="the first turn has no message"):
        list(benchmark_named("bfcl-multi-turn").load(Source(tmp_path), []))


def test_scenarios_are_items(tmp_path: Path) -> None:
    """A scenario is one task for all of its questions."""
    rows = [{"id": f"memory_{n}-{name}-0", "scenario": name} for n, name in enumerate("aab")]
    write(tmp_path, "memory", *rows)
    tasks = list(benchmark_named("bfcl-memory-rec-sum").load(Source(tmp_path), []))
    found = [(task.key, task.attributes["questions"]) for task in tasks]
    assert found == [("memory_rec_sum_a", "2"), ("memory_rec_sum_b", "1")]


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ({"user": "a"}, "roles.user: bfcl-multi-turn asks none"),
        ({"judge": "a"}, "roles.judge: bfcl-multi-turn asks none"),
        ({"agent": "pocket"}, "roles.agent: {bfcl} has no experts"),
    ],
)
def test_what_nobody_asks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roles: dict[str, str], words: str
) -> None:
    """The error names the field; without such roles the suite is valid."""
    write(tmp_path, "multi_turn_base", TASK)
    monkeypatch.setenv("TUTTI_HARNESS_BFCL", str(install_into(tmp_path / "environment")))
    data = {"source": tmp_path}
    assert len(TaskSet.read(Suite(benchmark="bfcl-multi-turn", data=data)).tasks) == 1
    with pytest.raises(SuiteError, match=words):
        TaskSet.read(Suite(benchmark="bfcl-multi-turn", data=data, roles=roles))


def test_a_missing_package_is_told_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the install command, also for Java and JavaScript."""
    monkeypatch.setenv("TUTTI_HARNESS_BFCL", str(tmp_path / "none"))
    with pytest.raises(SuiteError, match=r"bfcl-code runs in bfcl's own package.*`make bfcl`"):
        TaskSet.read(Suite(benchmark="bfcl-code", data={"source": tmp_path}))
