"""A step's batch from the store: groups, rewards and advantages of the attempts of one cell."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tutti import storage
from tutti.tasks.training import JobError
from tutti.tasks.training.policy.batch import step_batch, write_batch
from tutti.tasks.training.policy.job import RewardSettings

ENDS = frozenset([0])
CELL = "cell:1"


@pytest.fixture
def home(tmp_path: Path) -> storage.Home:
    return storage.Home(tmp_path / "home")


def enter(home: storage.Home, attempts: dict[str, list[tuple[str, float | None]]]) -> None:
    """Attempts by task: (status, score); each with one call of ids that name it."""
    rows: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    number = 0
    for task_id, group in attempts.items():
        for trial, (status, score) in enumerate(group):
            number += 1
            own = {"attempt_id": f"{task_id}/{trial}", "cell_id": CELL, "sweep_id": "sweep:1"}
            rows.append(own | {"task_id": task_id, "trial": trial, "attempt": 1, "status": status,
                               "score": score, "cost_usd": 0.01 * trial})  # fmt: skip
            history = storage.TokenHistory()
            spans = history.observe(f"call {number}", [number, 7], [number, 0])
            calls.append(own | {"call_id": f"call {number}", "role": "orchestrator",
                                "status": "ok", "step": 1, "token_ids": [number, 0],
                                "logprobs": [-0.5, -0.1], "prompt_token_ids": spans})  # fmt: skip
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": rows, "calls": calls})


GROUPS: dict[str, list[tuple[str, float | None]]] = {
    "mixed": [("ok", 1.0), ("ok", 0.0), ("limit", 0.0)],
    "dead": [("ok", 1.0), ("ok", 1.0)],
    "down": [("ok", 1.0), ("infra_error", None)],
}


def test_only_groups_that_teach_are_trained_and_infra_is_never_scored(home: storage.Home) -> None:
    enter(home, GROUPS)
    made = step_batch(CELL, RewardSettings(), ENDS, home, seed=0)
    by_name = {row["name"]: row for row in made.rows}
    assert set(by_name) == {"mixed/0", "mixed/1", "mixed/2"}
    first = by_name["mixed/0"]
    assert first["turns"] == [-1, -1, 0, 0]
    assert first["logprobs"] == pytest.approx([0, 0, -0.5, -0.1])
    assert first["ids"] == [1, 7, 1, 0], "the very tokens of that attempt"
    assert first["values"][2] > 0 > by_name["mixed/1"]["values"][2]
    assert made.said["groups"] == {"kept": 1, "infra": 1, "invalid": 0, "dead": 1, "flat": 0}
    assert made.figures["reward"] == pytest.approx(4 / 6), "the infra error is not among them"
    assert made.figures["dead_group_share"] == 0.5 and made.said["infra"] == 1


def test_a_reward_is_an_expression_over_attempts(home: storage.Home) -> None:
    """Score less cost: of two that solved it the cheaper one is pushed up."""
    enter(home, GROUPS)
    reward = RewardSettings(sql="score - 10 * cost_usd")
    made = step_batch(CELL, reward, ENDS, home, seed=0)
    values = {row["name"]: row["values"][-1] for row in made.rows}
    assert values["dead/0"] > 0 > values["dead/1"]


def test_the_controls_rewards_change_places_within_their_group_only(home: storage.Home) -> None:
    """So the control has the same number of groups, rewards and sequences, and nothing to learn."""
    enter(home, {f"t{n}": [("ok", 1.0), ("ok", 0.0), ("ok", 0.0)] for n in range(40)})
    real = step_batch(CELL, RewardSettings(), ENDS, home, seed=0)
    mixed = step_batch(CELL, RewardSettings(permuted=True), ENDS, home, seed=0)
    up = [row["name"] for row in mixed.rows if row["values"][-1] > 0]
    assert len(up) == 40 == len({name.split("/")[0] for name in up}), "one in each group"
    assert 5 < sum(name.endswith("/0") for name in up) < 25, "a third of them where it was earned"
    assert mixed.figures == real.figures


@pytest.mark.parametrize(
    ("sql", "said"), [("scoer", "scoer"), ("null", "null for"), ("'x'", "reward.sql")]
)
def test_a_reward_that_is_no_number_is_named(home: storage.Home, sql: str, said: str) -> None:
    enter(home, GROUPS)
    with pytest.raises(JobError, match=said):
        step_batch(CELL, RewardSettings(sql=sql), ENDS, home, seed=0)


def test_a_batch_is_there_whole_or_not_at_all(home: storage.Home, tmp_path: Path) -> None:
    enter(home, GROUPS)
    made = step_batch(CELL, RewardSettings(), ENDS, home, seed=0)
    file = tmp_path / "batch-000001.parquet"
    write_batch(made, file)
    assert pq.read_table(file).num_rows == 3 and list(tmp_path.glob("*.tmp")) == []
