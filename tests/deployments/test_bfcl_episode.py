"""Tests of the harness for BFCL's package with a fake of it: its requests and its output.

`test_bfcl_real` does the same with the real package.
"""

import importlib.util
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.evaluations.bfcl_player import playing
from tests.deployments.bfcl_standin import VERSION, install_into
from tutti.tasks.agents.commands.shipped import BFCL
from tutti.tasks.platform.project import PROJECT

GOLD = [[{"name": "add", "arguments": {"n": 1}}], [{"name": "add", "arguments": {"n": 2}}]]
SCRIPT = {
    "gold": GOLD,
    "short": [GOLD[0], []],
    "odd": [[{"name": "add", "arguments": {"n": 1, "x=print()": 2}}], GOLD[1]],
}


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of an endpoint that plays SCRIPT; the harness's Python has the fake."""
    monkeypatch.setenv("TUTTI_HARNESS_BFCL", str(install_into(tmp_path / "environment")))
    with playing(SCRIPT) as made:
        yield made


def run(url: str, model: str, task: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    file = folder / "task.json"
    file.write_text(json.dumps({"id": task, "request": {"max_tokens": 64}}))
    environment = {"PATH": os.environ["PATH"], "OPENAI_BASE_URL": url, "TUTTI_SEED": "7"}
    environment |= {"TUTTI_TASK": str(file), "TUTTI_MODEL": model}
    return subprocess.run(
        BFCL.words, env=environment, cwd=folder, capture_output=True, text=True, timeout=60
    )


def said(url: str, model: str, task: str, folder: Path) -> dict[str, Any]:
    """Return the last line of a successful attempt."""
    done = run(url, model, task, folder)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_gold_calls_are_right(url: str, tmp_path: Path) -> None:
    """The result has the package's scorer and version, the turns and the steps."""
    found = said(url, "gold", "multi_turn_base_0", tmp_path)
    assert (found["score"], found["correct"]) == (1.0, True)
    assert (found["scorer"], found["version"]) == ("bfcl_multi_turn", VERSION)
    detail = {"category": "multi_turn_base", "error": None, "turns": 2, "steps": 4}
    assert found["detail"] == detail


def test_a_wrong_turn_is_named(url: str, tmp_path: Path) -> None:
    """The turn is numbered from 1 and has the package's kind of error."""
    found = said(url, "short", "multi_turn_base_0", tmp_path)
    assert (found["score"], found["correct"]) == (0.0, False)
    assert (found["detail"]["error"], found["detail"]["turn"]) == ("mismatch", 2)


def test_a_call_that_python_would_run_is_a_text(url: str, tmp_path: Path) -> None:
    """The package evaluates calls as Python source, so an argument's name must be an identifier."""
    found = said(url, "odd", "multi_turn_base_0", tmp_path)
    assert (found["detail"]["error"], found["detail"]["turn"]) == ("mismatch", 1)


def test_a_memory_is_scored_by_its_questions(url: str, tmp_path: Path) -> None:
    """One attempt asks all questions, and the result lists the wrong ones."""
    found = said(url, "gold", "memory_kv_customer", tmp_path)
    assert (found["scorer"], found["score"], found["correct"]) == ("bfcl_memory", 0.0, False)
    assert (found["detail"]["right"], found["detail"]["questions"]) == (0, 2)
    wrong = [(each["id"], each["error"]) for each in found["detail"]["wrong"]]
    assert wrong == [("memory_0-customer-1", "not_found"), ("memory_1-customer-2", "not_found")]


def test_what_is_no_task_is_told(url: str, tmp_path: Path) -> None:
    """The error names the id and the package's version; the attempt counts as an infrastructure
    error."""
    done = run(url, "gold", "multi_turn_base_7", tmp_path)
    assert done.returncode == 1
    assert f"multi_turn_base_7 is no task of multi_turn_base in bfcl-eval {VERSION}" in done.stderr


def test_only_functions_of_the_task_keep_their_names() -> None:
    """Other functions, including builtins, are renamed to one that evaluates to nothing."""
    path = PROJECT / "deployments" / "harnesses" / "bfcl_model.py"
    spec = importlib.util.spec_from_file_location("bfcl_model", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.safe({"add": '{"n": 1}'}, ["add"]) == {"add": {"n": 1}}
    assert module.safe({"open": {"file": "x"}}, ["add"]) == {"unknown_function_open": {"file": "x"}}
    assert list(module.safe({"a.b('x')": {}}, ["add"])) == ["unknown_function_abx"]
    for name in ("x=1,y", "a b", "lambda"):
        with pytest.raises(ValueError, match="is no name of an argument"):
            module.safe({"add": {name: 1}}, ["add"])
