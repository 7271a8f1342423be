"""Tests of third-party harnesses in a real sweep with vLLM, the gateway and their own machinery.

Each is looked up in `.venv-harnesses` (``make harnesses``), or at the Python named by
TUTTI_HARNESS_INSPECT, TUTTI_HARNESS_LM_EVAL or TUTTI_HARNESS_VERIFIERS; without it, the test is
skipped.
"""

import json
import os
from pathlib import Path

import pytest

from tests.e2e.conftest import Store
from tutti.tasks.platform.project import PROJECT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

HARNESSES = PROJECT / "deployments" / "harnesses"
ITEMS = 3
MAX_TOKENS = 24
SUITE = """
name: {name}
benchmark: {benchmark}
model: pocket
policies: [adaptive]
concurrency: [2]
sampling: {{max_tokens: {max_tokens}}}
harness:
  command: {command}
"""


def python_of(name: str) -> Path:
    """Return the Python that has the harness; skip the test if there is none."""
    variable = f"TUTTI_HARNESS_{name.upper().replace('-', '_')}"
    usual = PROJECT / ".venv-harnesses" / name / "bin" / "python"
    path = Path(os.environ.get(variable, usual))
    if not path.is_file():
        pytest.skip(f"{name} is not installed: `make harnesses`, or its Python in {variable}")
    return path


def write_suite(folder: Path, benchmark: str, command: str) -> tuple[Path, Path]:
    """Write a suite file and its data."""
    data, suite = folder / "test.jsonl", folder / "suite.yaml"
    rows = [
        {"id": str(n), "question": f"What is {n} plus 2?", "answer": f"#### {n + 2}"}
        for n in range(ITEMS)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    name = f"harness-{benchmark}"
    text = SUITE.format(name=name, benchmark=benchmark, max_tokens=MAX_TOKENS, command=command)
    suite.write_text(text)
    return suite, data


@pytest.mark.parametrize(
    ("name", "script", "task", "counts"),
    [
        ("inspect", "inspect_task.py", "numbers_inspect.py", True),
        ("lm-eval", "lm_eval_task.py", "numbers_lm_eval.yaml", False),
        ("verifiers", "verifiers_env.py", "numbers_verifiers.py", True),
    ],
)
def test_a_harness_runs_its_own_task(
    store: Store, tmp_path: Path, name: str, script: str, task: str, counts: bool
) -> None:
    """Each sample makes one call, recorded without the harness's help; the harness's score is
    stored beside ours, and the token counts agree."""
    python = python_of(name)
    data = tmp_path / "test.jsonl"
    command = f"{python} {HARNESSES / script} {HARNESSES / 'examples' / task} {data}"
    suite, _ = write_suite(tmp_path, "gsm8k", command)
    done = store.run("sweep", "run", str(suite), "--source", str(data))
    assert done.returncode == 0, done.stderr[-3000:]
    attempts = store.sql(
        "select a.status, a.calls, a.prompt_tokens, a.completion_tokens, c.prompt_tokens as sent, "
        "c.completion_tokens as got, c.params, s.detail, s.scorer, s.value from attempts a "
        "join calls c on c.attempt_id = a.attempt_id "
        "join scores s on s.attempt_id = a.attempt_id and s.scorer != 'numeric'"
    )
    assert [(row["status"], row["calls"]) for row in attempts] == [("ok", 1)] * ITEMS
    for row in attempts:
        assert row["scorer"].startswith(name) and row["value"] in (0.0, 1.0)
        assert 0 < row["got"] <= MAX_TOKENS
        metered = (row["prompt_tokens"], row["completion_tokens"])
        assert metered == (row["sent"], row["got"])
        detail = json.loads(row["detail"])
        if counts:
            assert metered == (detail["prompt_tokens"], detail["completion_tokens"])
    scorers = store.sql("select count(*) n, count(distinct scorer) kinds from scores")
    assert scorers == [{"n": 2 * ITEMS, "kinds": 2}]


def test_a_task_that_only_the_harness_knows_is_scored_by_it(store: Store, tmp_path: Path) -> None:
    """With the benchmark `harness`, the attempt's only score is the harness's."""
    python, data = python_of("lm-eval"), tmp_path / "test.jsonl"
    task = HARNESSES / "examples" / "numbers_lm_eval.yaml"
    command = f"{python} {HARNESSES / 'lm_eval_task.py'} {task} {data}"
    suite, _ = write_suite(tmp_path, "harness", command)
    done = store.run("sweep", "run", str(suite), "--source", str(data), "--ids", "0,1")
    assert done.returncode == 0, done.stderr[-3000:]
    rows = store.sql(
        "select a.status, a.score = s.value as same, s.scorer from attempts a "
        "join scores s using (attempt_id)"
    )
    expected = {"status": "ok", "same": True, "scorer": "lm-eval/exact_match/last-number"}
    assert rows == [expected] * 2
