"""Tests of rewards against policies that try to game them: none earns more than the honest one."""

import json
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")
import yaml

from tutti import storage
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.training.policy.batch import step_groups
from tutti.tasks.training.policy.job import PolicyJob

CELL = {"cell_id": "cell:1", "sweep_id": "sweep:1"}
CALL = {"name": "call_expert", "arguments": json.dumps({"expert": "expert-1"}), "status": "ok"}
GOOD = CALL | {"result": "expert-1 writes the turn"}
REFUSED = CALL | {"status": "error", "error_type": "malformed_call", "result": "error: no expert"}
ANSWER = {"name": "answer", "arguments": json.dumps({"model": "answer-1"}), "status": "ok"}
SOLVED: dict[str, Any] = {"score": 1.0, "correct": True, "completion_tokens": 20, "status": "ok"}
WRONG = SOLVED | {"score": 0.0, "correct": False}
# By policy: what its attempt came to, and its runs of tools, (step, run).
POLICIES: dict[str, tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]] = {
    "honest": (SOLVED, [(1, GOOD), (2, ANSWER | {"result": "42"})]),
    "repeated": (SOLVED, [(n, GOOD) for n in range(1, 31)]),
    "refused": (SOLVED, [(n, REFUSED) for n in range(1, 31)]),
    "empty": (SOLVED, [(n, CALL | {"result": " "}) for n in range(1, 31)]),
    "after": (SOLVED, [(1, ANSWER | {"result": "42"}), *[(n, GOOD) for n in (1, 2, 3)]]),
    "longest": (SOLVED | {"completion_tokens": 4000, "cost_usd": 0.4}, [(1, GOOD)]),
    "form": (WRONG, [(n, GOOD) for n in range(1, 31)]),
    "nothing": (WRONG | {"status": "model_error"}, []),
}
UNSERVED = {"refused", "empty", "after"}


def shown(field: str) -> Any:
    """Return a field of the page's example of a reward."""
    page = (PROJECT / "docs" / "policy_training.md").read_text()
    return yaml.safe_load(page.split("## Rewards")[1].split("```yaml\n")[1].split("```")[0])[
        "reward"
    ][field]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> storage.Home:
    rows: dict[str, list[dict[str, Any]]] = {"attempts": [], "tool_runs": [], "calls": []}
    for trial, (name, (attempt, runs)) in enumerate(POLICIES.items()):
        own = CELL | {"attempt_id": name}
        steps = max((step for step, _ in runs), default=1)
        rows["attempts"].append(
            own | {"cost_usd": 0.01 * (1 + len(runs))} | attempt
            | {"task_id": "t", "trial": trial, "attempt": 1, "working_s": 2.0 * steps})  # fmt: skip
        rows["tool_runs"] += [own | run | {"step": step} for step, run in runs]
        rows["calls"] += [
            own | {"call_id": f"{name} {step}", "role": "orchestrator", "status": "ok",
                   "step": step} for step in range(1, steps + 1)
        ]  # fmt: skip
    home = storage.Home(tmp_path_factory.mktemp("gaming") / "home")
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, rows)
    return home


def earned(home: storage.Home, objective: str, reward: dict[str, Any]) -> dict[str, float]:
    """Return the reward of each policy's attempt; with rewards of turns, its first turn's
    return."""
    suite = {"benchmark": "stdlib", "policies": ["passthrough"], "concurrency": [2]}
    job = PolicyJob.model_validate(
        {"base": "pocket", "objective": objective, "reward": reward,
         "suite": suite | {"sampling": {"temperature": 1.0}}}
    )  # fmt: skip
    kept = step_groups([CELL["cell_id"]], job, home, seed=0).sorted.kept
    return {each.attempt_id: each.reward for each in kept["t"] if each.reward is not None}


@pytest.mark.parametrize(
    ("objective", "reward", "behind"),
    [
        ("grpo", {}, {"form"}),
        ("grpo", {"overlong": shown("overlong")}, {"longest", "form"}),
        ("grpo", {"preference": {"call_expert": 1.0}}, {*UNSERVED, "form"}),
        ("grpo", {"preference": {"accuracy": 1.0, "expert-1": 0.2}}, {*UNSERVED, "form"}),
        ("grpo", {"preference": {"call_expert": 1.0, "cost": 0.1}}, {*UNSERVED, "repeated"}),
        ("grpo", {"preference": {"accuracy": 1.0, "expert-1": -0.5}}, {"repeated", "refused"}),
        ("epo", {"process": shown("process")}, {"repeated", "refused", "empty", "form"}),
    ],
)
def test_no_policy_earns_more_than_the_honest_one(
    home: storage.Home, objective: str, reward: dict[str, Any], behind: set[str]
) -> None:
    """The policies in `behind` earn less, and so does the one without any text."""
    found = earned(home, objective, reward)
    assert found.keys() == POLICIES.keys()
    honest = found["honest"]
    assert max(found.values()) == honest
    assert all(found[name] < honest for name in {*behind, "nothing"})
