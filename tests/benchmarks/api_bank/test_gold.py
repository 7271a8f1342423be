"""Tests that gold answers score 1.0 with the scorers that their benchmarks name."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load, write_lines
from tests.benchmarks.test_formats import lcb, write_bfcl, write_bird, write_flowbench
from tests.scoring.conftest import ToldJudge
from tutti.tasks.benchmarks import BENCHMARKS, BenchmarkError, Task, benchmark_named
from tutti.tasks.sandbox import Sandbox, SandboxLimits, SandboxUnavailable
from tutti.tasks.sandbox.walls import strongest_level
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission


def test_every_scorer_exists() -> None:
    assert {benchmark.scorer for benchmark in BENCHMARKS.values()} <= SCORERS.keys()


async def value(name: str, task: Task) -> float:
    """Return the score of the gold answer of `task`."""
    benchmark = benchmark_named(name)
    attempted = benchmark.gold_attempt(task)
    means = ScoringResources(judge=ToldJudge([]))  # which a gold answer does not need
    return (await SCORERS[benchmark.scorer].score(task.target, attempted, means)).value


@pytest.mark.parametrize(
    ("name", "folder", "count"),
    [
        ("gsm8k", "gsm8k", 1319),
        ("api-bank-1", "api-bank", 389),
        ("api-bank-2", "api-bank", 119),
        ("tau2-airline", "tau2", 50),
        ("tau2-banking", "tau2", 97),
        ("tau2-mock", "tau2", 10),
        ("tau2-retail", "tau2", 114),
        ("tau2-telecom", "tau2", 20),
    ],
)
async def test_gold_of_the_shared_data(data: Path, name: str, folder: str, count: int) -> None:
    """Every gold answer of every task scores 1.0, except 61 calls of API-Bank that fail by its own
    rule and are marked in the target."""
    tasks = load(name, data / folder, [])
    fail = [any("fails" in call for call in task.target.get("calls", ())) for task in tasks]
    values = [await value(name, task) for task in tasks]
    assert values == [0.0 if fails else 1.0 for fails in fail] and len(values) == count


async def test_gold_of_the_formats(tmp_path: Path) -> None:
    """Gold answers of formats with constructed data score 1.0, too."""
    write_bird(tmp_path / "bird")
    write_flowbench(tmp_path / "flow")
    truth = [{"geo.find": {"at": [{"lat": [1, 2]}], "unit": ["km", ""]}}]
    write_bfcl(tmp_path / "bfcl", "simple", truth)
    write_lines(tmp_path / "aime.jsonl", [{"problem": "p", "answer": "016"}])
    write_lines(
        tmp_path / "pro.jsonl",
        [
            {
                "question_id": 1,
                "question": "q",
                "options": ["a", "b"],
                "answer": "B",
                "category": "law",
            }
        ],
    )
    for name, path in (
        ("bird", tmp_path / "bird"),
        ("flowbench-text", tmp_path / "flow"),
        ("bfcl", tmp_path / "bfcl"),
        ("aime-25", tmp_path / "aime.jsonl"),
        ("mmlu-pro", tmp_path / "pro.jsonl"),
    ):
        for task in load(name, path):
            assert await value(name, task) == 1.0, (name, task.key)


HUMANEVAL_ROW = {
    "task_id": "HumanEval/0",
    "prompt": 'import math\n\ndef root(n):\n    """Whole square root."""\n',
    "canonical_solution": "    return math.isqrt(n)\n",
    "test": "def check(candidate):\n    assert candidate(9) == 3\n    assert candidate(8) == 2\n",
    "entry_point": "root",
}
MBPP_ROW = {
    "task_id": 2,
    "prompt": "Write a function to double.",
    "code": "def double(n):\n    return 2 * n",
    "test_imports": ["import math"],
    "test_list": ["assert double(2) == 4", "assert double(math.inf) == math.inf"],
}
BUILTIN_ROW = MBPP_ROW | {
    "code": "def sum(a, b):\n    return max(a, b) - min(a, b) + 1",
    "test_list": ["assert sum(10, 15) == 6"],
}


@pytest.fixture(scope="module")
def means() -> ScoringResources:
    """Return scoring resources with a sandbox, if this machine has one."""
    try:
        return ScoringResources(sandbox=Sandbox(strongest_level(), SandboxLimits(seconds=20.0)))
    except SandboxUnavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.mark.parametrize(
    ("name", "row"),
    [("humaneval", HUMANEVAL_ROW), ("mbpp", MBPP_ROW), ("mbpp", BUILTIN_ROW)],
)
async def test_gold_code_passes_its_tests(
    tmp_path: Path, means: ScoringResources, name: str, row: dict[str, Any]
) -> None:
    """The reference solution scores 1.0 in the sandbox, and a wrong one scores 0.0."""
    (task,) = load(name, write_lines(tmp_path / "rows.jsonl", [row]))
    benchmark, scorer = benchmark_named(name), SCORERS["code"]
    gold = benchmark.gold_attempt(task)
    assert (await scorer.score(task.target, gold, means)).value == 1.0
    wrong = "def root(n):\n    return 3\n\ndef double(n):\n    return 4\n"
    assert (await scorer.score(task.target, Submission(wrong, wrong), means)).value == 0.0


async def test_contest_code_runs_on_every_case(tmp_path: Path, means: ScoringResources) -> None:
    """The scorer runs LiveCodeBench's cases with a program that reads and prints."""
    (task,) = load("livecodebench", write_lines(tmp_path / "test.jsonl", [lcb()]))
    right, wrong = "print(2 * int(input()))", "print(1 + int(input()))"
    scored = [
        (await SCORERS["code"].score(task.target, Submission(code, code), means)).value
        for code in (right, wrong)
    ]
    assert scored == [1.0, 0.0], "the second program is right on the public case only"


async def test_the_reference_s_empty_call_does_not_count(tmp_path: Path) -> None:
    """FlowBench's own checker treats identical calls as different and counts a dialogue without
    calls as one correct call; here the gold call is correct, and an unexpected call is wrong."""
    write_flowbench(tmp_path)
    call, reply = load("flowbench-text", tmp_path)
    messages = benchmark_named("flowbench-text").gold_messages(call)
    assert json.loads(messages[0]["tool_calls"][0]["function"]["arguments"]) == {"of": "tea"}
    made = Submission(None, "", messages)
    wrong = await SCORERS["tool_calls"].score(reply.target, made, ScoringResources())
    assert wrong.value == 0.0


def test_benchmarks_without_a_gold_answer(data: Path) -> None:
    """IFEval has no gold answers; requesting one raises an error that says so."""
    task = load("ifeval", data / "ifeval")[0]
    with pytest.raises(BenchmarkError, match="ifeval comes without a gold answer"):
        benchmark_named("ifeval").gold_messages(task)
