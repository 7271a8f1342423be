"""Tests of a job's cells: the same groups in the same order each time, and every task before any is
repeated."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.sweeps.conftest import config_of, made_task
from tutti.storage import Home, commit, open_catalog
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.registry.models import Model
from tutti.tasks.training import JobError
from tutti.tasks.training.policy import (
    PolicyJob,
    held_out_suite,
    plan_policy,
    read_policy_job,
    rollout_suite,
)
from tutti.tasks.training.policy.job import RewardSettings, RolloutSettings

SUITE: dict[str, Any] = {"policies": ["passthrough"], "concurrency": [4]}
SUITE |= {"sampling": {"temperature": 1.0}, "data": {"split": "train"}}


def job(**fields: Any) -> PolicyJob:
    known: dict[str, Any] = {"base": "pocket", "suite": SUITE, "steps": 6}
    known |= {"rollouts": {"groups": 4, "group_size": 3}}
    return PolicyJob.model_validate(known | fields)


def tasks(split: str, count: int) -> list[Any]:
    return [made_task(f"{split} {i}", str(i), {"i": f"{split} {i}"}, split) for i in range(count)]


def planned(asked: PolicyJob, train: int = 10, test: int = 5) -> Any:
    return plan_policy(asked, config_of(tasks("train", train)), config_of(tasks("test", test)))


def test_a_job_planned_again_rolls_out_the_same_groups() -> None:
    """A job that was killed therefore continues with its own groups; another seed has other groups
    and ids."""
    first, again, other = planned(job()), planned(job()), planned(job(seed=1))
    assert first.rollouts == again.rollouts and first.evaluations == again.evaluations
    assert first.rollouts.sweep_id != other.rollouts.sweep_id
    assert first.rollouts.sweep_id != first.evaluations.sweep_id


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("field", ["command", "mcp"])
def test_the_files_that_a_harness_names_are_in_ids(
    field: str, held_out: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job with a changed `agent.py` used to be treated as already trained."""
    monkeypatch.chdir(tmp_path)
    suite = SUITE | {"benchmark": "gsm8k", "harness": {field: "python agent.py"}}
    asked = job(evaluation={"suite": suite}) if held_out else job(suite=suite)
    ids = []
    for text in ("one", "two", "one"):
        (tmp_path / "agent.py").write_text(text)
        cells = planned(asked)
        ids.append((cells.rollouts.sweep_id, cells.evaluations.sweep_id))
    first, changed, again = ids
    assert first == again and first[0] != changed[0] and first[1] != changed[1]


def test_what_a_sweeps_set_up_has_in_ids_is_in_a_jobs(tmp_path: Path) -> None:
    """The request settings of the base's entry are an example."""
    entry = {"provider": "vllm", "checkpoint": "w", "context_tokens": 512, "engine": {}}
    ids = []
    for more in ({}, {"prices": {"prompt": 1.0}}, {"request": {"top_p": 0.5}}):
        model = Model.model_validate(entry | more)
        sides = [config_of(tasks(split, 5), model=model) for split in ("train", "test")]
        ids.append(plan_policy(job(), sides[0], sides[1]).rollouts.sweep_id)
    assert ids[0] == ids[1] != ids[2]


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 8), st.integers(0, 3))
def test_each_step_has_its_groups_and_each_pass_every_task(
    train: int, groups: int, steps: int, seed: int
) -> None:
    asked = job(steps=steps, rollouts={"groups": groups, "group_size": 2}, seed=seed)
    cells = planned(asked, train=train).rollouts.cells
    assert [cell.repeat for cell in cells] == list(range(steps))
    drawn = []
    for cell in cells:
        names = [sample.task.task_id for sample in cell.samples]
        assert all(names.count(name) == 2 for name in names), "a group of two each"
        assert len(set(names)) <= min(groups, train)
        drawn += list(dict.fromkeys(names))
    if len(drawn) >= train and train % min(groups, train) == 0:
        assert len(set(drawn[:train])) == train, "every task once before any comes again"
    ids = [sample.sample_id for cell in cells for sample in cell.samples]
    assert len(set(ids)) == len(ids)


def test_held_out_tasks_are_measured_greedily_first_last_and_between() -> None:
    asked = job(evaluation={"every": 2, "limit": 3})
    cells = planned(asked)
    assert cells.at == (0, 2, 4, 6) and len(cells.evaluations.cells) == 4
    assert all(len(cell.samples) == 3 for cell in cells.evaluations.cells)
    suite = held_out_suite(asked)
    assert (suite.data.split, suite.sampling.temperature) == ("test", 0.0)
    assert rollout_suite(asked).repetition.trials == 3
    several = held_out_suite(job(evaluation={"trials": 4}))
    assert (several.repetition.trials, several.sampling.temperature) == (4, 1.0)


def test_a_task_on_both_sides_and_an_empty_split_are_refused() -> None:
    with pytest.raises(JobError, match="5 tasks are trained on"):
        plan_policy(job(), config_of(tasks("a", 9)), config_of(tasks("a", 5)))
    with pytest.raises(JobError, match="no task in split 'test'"):
        planned(job(), test=0)


def test_a_task_that_copies_a_held_out_one_is_not_rolled_out(tmp_path: Path) -> None:
    """The held-out tasks are those of the evaluation, the store and the user's own files; only
    equal prompts within the job used to be detected."""

    def asked(split: str, *texts: str) -> Any:
        return config_of([made_task(text, "1", {"i": text}, split) for text in texts])

    home = Home(tmp_path)
    stored = {"task_set_id": "task_set:1", "task_id": "t", "split": "test"}
    with open_catalog(home) as catalog:
        commit(catalog, {"tasks": [stored | {"question": "How deep is the sea at Aden?"}]})
    (tmp_path / "held_out").mkdir()
    (tmp_path / "held_out" / "own.jsonl").write_text('{"text": "How old is the oak at Ems?"}')
    train = asked(
        "train",
        "Please say: what is the sum of 31 and 12?",
        "HOW DEEP IS THE SEA AT ADEN",
        "How very old is the oak at Ems?",
        "What is the sum of 31 and 13?",
    )
    made = plan_policy(job(), train, asked("test", "What is the sum of 31 and 12?"), home)
    rolled = [sample.task for cell in made.rollouts.cells for sample in cell.samples]
    assert {each.messages[-1]["content"] for each in rolled} == {"What is the sum of 31 and 13?"}
    assert made.left_out == {"question of a held-out task": 2, "question near a held-out one": 1}
    alone = plan_policy(job(), train, asked("test", "What is the sum of 31 and 12?"))
    assert alone.left_out == {"question of a held-out task": 1}
    assert alone.rollouts.sweep_id != made.rollouts.sweep_id
    with pytest.raises(JobError, match="all 1 tasks copy held-out ones"):
        plan_policy(job(), asked("train", "Well: 2 + 3 - 1?"), asked("test", "2 + 3 - 1?"))


def test_held_out_tasks_may_be_of_another_file(tmp_path: Path) -> None:
    """The file is beside the job's file; its tasks have their own scorer and are decoded greedily,
    as those of the split."""
    (tmp_path / "train.jsonl").write_text("")
    own = {"benchmark": "train.jsonl", "data": {"scorer": "exact"}, "concurrency": [2]}
    own |= {"policies": ["passthrough"], "sampling": {"temperature": 1.0}}
    held = own | {"benchmark": "held_out.jsonl"}
    (tmp_path / "job.yaml").write_text(
        yaml.safe_dump({"base": "pocket", "suite": own, "evaluation": {"suite": held}})
    )
    made = read_policy_job(tmp_path / "job.yaml")
    suite = held_out_suite(made)
    assert suite.benchmark == str(tmp_path / "held_out.jsonl")
    assert (suite.data.split, suite.sampling.temperature) == (None, 0.0)
    assert rollout_suite(made).benchmark == str(tmp_path / "train.jsonl")


def test_the_job_that_ships_is_the_documented_one(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "policy_training.md").read_text()
    printed = tmp_path / "grpo.yaml"
    printed.write_text(page.split("```yaml\n")[1].split("```")[0])
    shipped = PROJECT / "deployments" / "training" / "pocket-grpo.yaml"
    assert read_policy_job(printed) == read_policy_job(shipped)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"suite": SUITE | {"sampling": {"temperature": 0}}}, "temperature"),
        ({"suite": SUITE | {"concurrency": [2, 4]}}, "one policy and one concurrency"),
        ({"rollouts": {"group_size": 1}}, "group_size"),
        ({"rollouts": {"staleness": 2}}, "staleness"),
    ],
)
def test_jobs_that_could_not_learn_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        job(**fields)


def test_the_pages_settings_are_all_there_and_are_read() -> None:
    """The page shows every field of rewards and rollouts, and its examples are valid."""
    page = (PROJECT / "docs" / "policy_training.md").read_text()
    shown: dict[str, Any] = {}
    for text in page.split("```yaml\n")[2:]:
        shown |= yaml.safe_load(text.split("```")[0])
    made = job(**shown)
    assert made.self_play is not None and made.rollouts.dynamic is not None
    for model, name in ((RewardSettings, "reward"), (RolloutSettings, "rollouts")):
        for each in model.model_fields:
            assert f"{each}:" in page, f"{name}.{each}"


def test_the_engine_of_a_job_is_no_other_entrys() -> None:
    """Two jobs change their engines differently, and an actor with the same weights keeps its own
    engine."""
    one, other = job(), job(seed=1)
    assert one.trained_by.keys() == {"pocket"}
    assert one.trained_by != other.trained_by
    rounds = job(self_play={"opponent": "rival"})
    assert rounds.trained_by.keys() == {"pocket", "rival"} and rounds.others == ("rival",)
    assert len(set(rounds.trained_by.values())) == 2
