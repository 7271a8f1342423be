"""Tests of a step's batch from the store: groups, rewards and advantages of the attempts of one
cell."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tutti import storage
from tutti.tasks.training import JobError
from tutti.tasks.training.policy.batch import StepBatch, step_batch, step_groups, write_batch
from tutti.tasks.training.policy.job import PolicyJob

ENDS = frozenset([0])
CELL = "cell:1"


def batch(home: storage.Home, objective: str = "grpo", **reward: Any) -> StepBatch:
    suite = {"benchmark": "stdlib", "policies": ["passthrough"], "concurrency": [2]}
    job = PolicyJob.model_validate(
        {"base": "pocket", "objective": objective, "reward": reward,
         "suite": suite | {"sampling": {"temperature": 1.0}}}
    )  # fmt: skip
    return step_batch(step_groups([CELL], job, home, seed=0), job, ENDS, home)


@pytest.fixture
def home(tmp_path: Path) -> storage.Home:
    return storage.Home(tmp_path / "home")


def enter(home: storage.Home, attempts: dict[str, list[tuple[str, float | None]]]) -> None:
    """Store attempts by task as (status, score), each with one call whose token ids identify it."""
    rows: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    number = 0
    for task_id, group in attempts.items():
        for trial, (status, score) in enumerate(group):
            number += 1
            own = {"attempt_id": f"{task_id}/{trial}", "cell_id": CELL, "sweep_id": "sweep:1"}
            rows.append(own | {"task_id": task_id, "trial": trial, "attempt": 1, "status": status,
                               "score": score, "correct": score == 1.0, "working_s": 2.0,
                               "cost_usd": 0.01 * trial,
                               "completion_tokens": 10 * (trial + 1)})  # fmt: skip
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
    made = batch(home)
    by_name = {row["name"]: row for row in made.rows}
    assert set(by_name) == {"mixed/0", "mixed/1", "mixed/2"}
    first = by_name["mixed/0"]
    assert first["turns"] == [-1, -1, 0, 0]
    assert first["logprobs"] == pytest.approx([0, 0, -0.5, -0.1])
    assert first["ids"] == [1, 7, 1, 0], "the very tokens of that attempt"
    assert first["values"][2] > 0 > by_name["mixed/1"]["values"][2]
    left_out = {"infra": 1, "unjudged": 0, "invalid": 0, "dead": 1, "flat": 0}
    assert made.said["groups"] == {"kept": 1} | left_out
    assert made.figures["reward"] == pytest.approx(4 / 6), "the infra error is not among them"
    assert made.figures["dead_group_share"] == 0.5 and made.said["infra"] == 1


def test_a_reward_is_an_expression_over_attempts(home: storage.Home) -> None:
    """The reward is score less cost: of two correct attempts the cheaper one is reinforced."""
    enter(home, GROUPS)
    made = batch(home, sql="score - 10 * cost_usd")
    values = {row["name"]: row["values"][-1] for row in made.rows}
    assert values["dead/0"] > 0 > values["dead/1"]


def test_the_controls_rewards_change_places_within_their_group_only(home: storage.Home) -> None:
    """The control therefore has the same number of groups, rewards and sequences, and nothing to
    learn."""
    enter(home, {f"t{n}": [("ok", 1.0), ("ok", 0.0), ("ok", 0.0)] for n in range(40)})
    real = batch(home)
    mixed = batch(home, permuted=True)
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
        batch(home, sql=sql)


def last_values(made: StepBatch) -> dict[str, float]:
    return {row["name"]: row["values"][-1] for row in made.rows}


def test_long_answers_are_punished_over_the_buffer_and_by_one_at_most(home: storage.Home) -> None:
    """By DAPO, eq. 13, 10, 20 and 30 tokens of 20 with a buffer of 10 cost 0, 1 and 1."""
    enter(home, {"t": [("ok", 1.0), ("ok", 1.0), ("ok", 1.0)]})
    made = batch(home, overlong={"most_tokens": 20, "buffer_tokens": 10}, advantage="centred")
    assert last_values(made) == pytest.approx({"t/0": 2 / 3, "t/1": -1 / 3, "t/2": -1 / 3})


def test_parts_are_weighted_and_may_be_normalised_one_by_one(home: storage.Home) -> None:
    """If parts are decoupled, a part's scale has no effect: cost in cents weighs as much as cost in
    dollars."""
    enter(home, {"t": [("ok", 1.0), ("ok", 1.0), ("ok", 0.0)]})
    for scale in (1, 100):
        parts = {
            "outcome": {"sql": "score"},
            "cheap": {"sql": f"-cost_usd * {scale}", "weight": 0.5},
        }
        summed = batch(home, parts=parts, advantage="centred")
        decoupled = last_values(batch(home, parts=parts, advantage="decoupled"))
        assert summed.figures["reward"] == pytest.approx(2 / 3 - 0.5 * 0.01 * scale)
        expected = {"t/0": 0.5774 + 0.5, "t/1": 0.5774, "t/2": -1.1547 - 0.5}
        assert decoupled == pytest.approx(expected, abs=0.02)


def test_a_preference_rewards_the_cheaper_of_those_that_solved_it(home: storage.Home) -> None:
    """An unsolved attempt earns nothing, however cheap it is."""
    enter(home, {"t": [("ok", 0.0), ("ok", 1.0), ("ok", 1.0)]})
    values = last_values(batch(home, preference={"accuracy": 1.0, "cost": 0.5}))
    assert values["t/1"] > values["t/2"] > values["t/0"]


def test_a_reward_is_that_of_the_newest_verdict(home: storage.Home) -> None:
    """Two verdicts were reversed since, and attempts on which the scorer had failed were scored."""
    enter(home, {"t": [("ok", 1.0), ("ok", 0.0), ("scorer_error", None), ("scorer_error", None)]})
    when = datetime(2026, 11, 24, tzinfo=UTC)
    with storage.open_catalog(home) as catalog:
        key = {"cell_id": CELL, "scorer": "people", "scored_at": when}
        verdicts = {"t/0": False, "t/1": True, "t/2": True}
        scores = [
            key | {"attempt_id": name, "value": float(right), "correct": right}
            for name, right in verdicts.items()
        ]
        storage.commit(catalog, {"scores": scores})
    rewards: list[dict[str, Any]] = [{}, {"preference": {"accuracy": 1.0}}]
    for reward in rewards:
        values = last_values(batch(home, **reward))
        assert values.keys() == {"t/0", "t/1", "t/2"}
        assert values["t/1"] == values["t/2"] > 0 > values["t/0"], reward


def test_a_preference_for_cost_needs_prices(home: storage.Home) -> None:
    rows = [{"attempt_id": f"u/{n}", "cell_id": CELL, "sweep_id": "sweep:1", "task_id": "u",
             "trial": n, "status": "ok", "correct": True} for n in (0, 1)]  # fmt: skip
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": rows})
    with pytest.raises(JobError, match=r"preference.cost: the cost of u/0 is unknown"):
        batch(home, preference={"accuracy": 1.0, "cost": 0.5})


def test_each_task_has_its_own_preference(home: storage.Home) -> None:
    """Of two tasks with equal attempts, one prefers cheap ones and the other is indifferent."""
    enter(home, {name: [("ok", 1.0), ("ok", 1.0)] for name in ("cheap", "any")})
    weights = {"cheap": {"accuracy": 0.5, "cost": 0.5}, "any": {"accuracy": 1.0}}
    slots = {name: {"preference": json.dumps(each)} for name, each in weights.items()}
    items = [
        {"task_set_id": "s", "task_id": name, "slots": json.dumps(each)}
        for name, each in slots.items()
    ]
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"tasks": items})
    values = last_values(batch(home, preference="task"))
    assert values["cheap/0"] > values["cheap/1"]
    assert "any/0" not in values, "its attempts earn the same, so they teach nothing"


def test_the_uses_of_experts_count_by_their_alias(home: storage.Home) -> None:
    """Of two attempts that called an expert, the one with the avoided alias earns less."""
    enter(home, {"t": [("ok", 1.0), ("ok", 1.0)]})
    runs = [
        {"attempt_id": f"t/{n}", "cell_id": CELL, "name": "call_expert", "status": "ok",
         "arguments": json.dumps({"expert": alias})}
        for n, alias in enumerate(("expert-1", "expert-2"))
    ]  # fmt: skip
    broken = {"attempt_id": "t/0", "cell_id": CELL, "name": "call_expert", "status": "error"}
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"tool_runs": [*runs, broken | {"arguments": "{no"}]})
    values = last_values(batch(home, preference={"accuracy": 0.5, "expert-1": -0.5}))
    assert values["t/1"] > values["t/0"]


def test_a_task_without_a_preference_is_said(home: storage.Home) -> None:
    enter(home, {"t": [("ok", 1.0), ("ok", 1.0)]})
    with pytest.raises(JobError, match="task: t has no preference; `tutti derive"):
        batch(home, preference="task")


def test_a_picked_turn_is_worth_more_and_failures_are_pushed_down(home: storage.Home) -> None:
    """With EPO, of equal outcomes the one with the picked turn is reinforced."""
    enter(home, {"t": [("ok", 0.0), ("ok", 0.0), ("ok", 1.0)]})
    plain = last_values(batch(home, "epo"))
    assert plain["t/2"] > 0 > plain["t/0"] == plain["t/1"]
    picked = {"sql": "select attempt_id, step from calls where attempt_id = 't/1'"}
    values = last_values(batch(home, "epo", process=picked))
    assert values["t/2"] > values["t/1"] > values["t/0"]


def test_picks_alone_make_a_group_alive(home: storage.Home) -> None:
    enter(home, {"t": [("ok", 0.0), ("ok", 0.0)]})
    assert batch(home, "epo").rows == []
    picked = {"sql": "select attempt_id, step from calls where attempt_id = 't/1'"}
    assert len(batch(home, "epo", process=picked).rows) == 2


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ({"process": {"sql": "select 1 as a where false union all select attempt_id"}}, "sql"),
        ({"process": {"sql": "select attempt_id from calls"}}, "must give attempt_id and step"),
        ({"sql": "score * 7", "process": {"sql": "select attempt_id, step from calls"}}, "0 to 1"),
    ],
)
def test_a_process_reward_that_cannot_be_read_is_named(
    home: storage.Home, reward: dict[str, Any], said: str
) -> None:
    enter(home, GROUPS)
    with pytest.raises(JobError, match=said):
        batch(home, **reward)


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ({"preference": {"cost": 2.0}}, "not from 0 to 1"),
        ({"preference": {"cost": 1.0}, "parts": {"a": {"sql": "1"}}}, "give one of them"),
        ({"advantage": "decoupled"}, "there are none"),
        ({"process": {"weight": 0.1}}, "either `sql` or `judge`"),
        ({"overlong": {"most_tokens": 5, "buffer_tokens": 6}}, "more than most_tokens"),
    ],
)
def test_settings_that_do_not_fit_are_refused(reward: dict[str, Any], said: str) -> None:
    suite = {"benchmark": "stdlib", "sampling": {"temperature": 1.0}}
    with pytest.raises(ValidationError, match=said):
        PolicyJob.model_validate({"base": "pocket", "suite": suite, "reward": reward})


def test_a_batch_is_there_whole_or_not_at_all(home: storage.Home, tmp_path: Path) -> None:
    enter(home, GROUPS)
    made = batch(home)
    file = tmp_path / "batch-000001.parquet"
    write_batch(made, file)
    assert pq.read_table(file).num_rows == 3 and list(tmp_path.glob("*.tmp")) == []
