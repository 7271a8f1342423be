"""Tests of the loop with a scripted model and trainer: rounds of dynamic sampling, late attempts,
judges.

The e2e tests use real ones; these tests cover the groups on which a step trains, and that a resumed
job trains on the same.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep, catalog, config_of, make_tasks, sweep
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan import ServedModel
from tutti.tasks.training.jobs.stage import WallTimeReached
from tutti.tasks.training.policy import PolicyCells, PolicyJob, loop, plan_policy
from tutti.tasks.training.policy.batch import StepBatch
from tutti.tasks.training.policy.loop import PolicyRun, ServedPolicy
from tutti.tasks.training.policy.picks import ProcessJudge, numbers_in, read_picks
from tutti.tasks.training.policy.trainer import StepDone

__all__ = ["catalog", "sweep"]
JUDGE = ServedModel(
    "other", "engine:2", Model(provider="openai", endpoint="http://h/v1", context_tokens=8192)
)
WRONG = "so \\boxed{-1}"
COUNTS = {"kept": 0, "infra": 0, "unjudged": 0, "invalid": 0, "dead": 0, "flat": 0}


@dataclass
class Trainer:
    """Trainer that accepts and stores every batch; its work before a kill is given."""

    batches: list[StepBatch] = field(default_factory=list)
    before: int = 0
    figures: dict[int, Any] = field(default_factory=dict)
    adapter: Path | None = None

    async def ready(self) -> list[StepDone]:
        return [StepDone(n + 1, {"step": n + 1, "loss": 0.1}, None) for n in range(self.before)]

    def noted(self) -> dict[int, Any]:
        return self.figures

    async def train(self, step: int, batch: StepBatch) -> StepDone:
        self.batches.append(batch)
        return StepDone(step, {"step": step, "loss": 0.1}, None)

    def note(self, step: int, figures: Mapping[str, Any]) -> None:
        self.figures[step] = dict(figures)

    async def finish(self) -> None:
        """Do nothing at the end."""


def policy_job(**fields: Any) -> PolicyJob:
    suite = {"policies": ["passthrough"], "concurrency": [4], "data": {"split": "train"}}
    known: dict[str, Any] = {"base": "pocket", "suite": suite, "steps": 2}
    known["suite"] |= {"sampling": {"temperature": 1.0}}
    known |= {"evaluation": {"limit": 1}, "rollouts": {"groups": 2, "group_size": 2}}
    return PolicyJob.model_validate(known | fields)


def cells_of(job: PolicyJob, count: int = 12) -> PolicyCells:
    every = make_tasks(count + 1)
    ups = [config_of(some) for some in (every[:count], every[count:])]
    return plan_policy(job, ups[0], ups[1])


async def run(sweep: Sweep, job: PolicyJob, trainer: Trainer, **more: Any) -> PolicyRun:
    made = SimpleNamespace(catalog=sweep.catalog, run_id="run:1")
    served = ServedPolicy(job, sweep.deployment, sweep.catalog.home.root / "work")
    given: Any = (job, cells_of(job), served, trainer, frozenset([0]), made, JUDGE)
    policy = PolicyRun(*given, **more)
    await policy.to_the_end()
    return policy


def half_wrong(agent: Agent, numbers: Any) -> None:
    """Make one of the two attempts at each of these questions wrong, so that its group is
    informative."""
    agent.odd |= {f"what is {n} + 1": [WRONG] for n in numbers}


async def test_a_step_samples_on_until_there_are_groups_enough(sweep: Sweep) -> None:
    """Of 12 tasks every third is informative: two such groups need more than one round of 3."""
    job = policy_job(
        rollouts={"groups": 2, "group_size": 2, "dynamic": {"round_groups": 3, "most_rounds": 4}}
    )
    half_wrong(sweep.agent, range(0, 12, 3))
    trainer = Trainer()
    policy = await run(sweep, job, trainer)
    first = trainer.batches[0]
    assert first.figures["groups"] >= 2 and first.said["attempts"] % 6 == 0
    ran = sweep.sql("select count(*) from cells where status = 'finished'")[0][0]
    entered = sweep.sql("select count(*) from cells")[0][0]
    assert entered == ran, "no round is planned that is not needed"
    assert [row["groups"] for row in policy.done] == [b.figures["groups"] for b in trainer.batches]


async def test_rounds_end_at_their_bound_with_what_there_is(sweep: Sweep) -> None:
    job = policy_job(
        steps=1,
        rollouts={"groups": 2, "group_size": 2, "dynamic": {"round_groups": 3, "most_rounds": 2}},
    )
    trainer = Trainer()
    await run(sweep, job, trainer)
    (batch,) = trainer.batches
    assert batch.said["attempts"] == 12 and batch.figures["groups"] == 0 and batch.rows == []


async def test_a_job_that_goes_on_recounts_the_step_whose_note_was_lost(sweep: Sweep) -> None:
    """The job was killed between a step and its record: the same rounds are read again, and none is
    sampled."""
    job = policy_job(
        rollouts={"groups": 2, "group_size": 2, "dynamic": {"round_groups": 3, "most_rounds": 4}}
    )
    half_wrong(sweep.agent, range(0, 12, 3))
    whole = await run(sweep, job, Trainer())
    asked = len(sweep.agent.asked)
    again = await run(sweep, job, Trainer(before=2))
    names = ("reward", "groups", "dead_group_share")
    assert [[row[n] for n in names] for row in again.done] == [
        [row[n] for n in names] for row in whole.done
    ]
    assert len(sweep.agent.asked) == asked


async def test_a_judge_is_asked_once_a_dialogue_and_its_picks_are_stored(
    sweep: Sweep,
) -> None:
    """The judge picks the turn of each correct answer; a resumed job makes no second request."""
    seen: list[str] = []
    scripted = sweep.agent

    async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["model"] != "other":
            return await scripted(request, body)
        text = body["messages"][0]["content"]
        seen.append(text)
        return web.json_response(completion("I say [9]" if WRONG in text else "Surely [0]"))

    sweep.double.reply = reply
    half_wrong(scripted, range(12))
    job = policy_job(steps=1, objective="epo", reward={"process": {"judge": "other"}})
    await run(sweep, job, Trainer())
    assert len(seen) == 4 and all("<turn 0> so" in text for text in seen)
    stored = sweep.sql(
        "select detail, judge_call_id is not null from scores where scorer = 'process'"
    )
    assert sorted(json.loads(detail)["picked"] for detail, _ in stored) == [[0], [0], [9], [9]]
    assert all(called for _, called in stored)
    names = [row[0] for row in sweep.sql("select attempt_id from scores where scorer = 'process'")]
    picks = read_picks(job.reward.process, names, sweep.catalog.home)
    assert sorted(picks.values()) == [(False,), (False,), (True,), (True,)]
    assert sweep.sql("select count(*) from calls where role = 'judge'") == [(4,)]
    await run(sweep, job, Trainer())
    assert len(seen) == 4


class Outage:
    """Judge that picks turn 0 of every dialogue and refuses the first calls about some."""

    def __init__(self, sweep: Sweep, refused: Mapping[str, int]) -> None:
        self.agent, self.asked = sweep.agent, Counter[str]()
        self.refused = refused
        """By a text in the dialogue: how many calls about it."""
        sweep.double.reply = self.reply

    async def reply(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["model"] != "other":
            return await self.agent(request, body)
        text = body["messages"][0]["content"]
        self.asked[text] += 1
        most = max((n for part, n in self.refused.items() if part in text), default=0)
        if self.asked[text] <= most:
            return web.json_response({"error": {"message": "no credit"}}, status=402)
        return web.json_response(completion("[0]"))


def ask_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "ProcessJudge", partial(ProcessJudge, pauses_s=(0.0, 0.0)))


JUDGED = policy_job(steps=1, objective="epo", reward={"process": {"judge": "other"}})


async def test_a_judges_outage_is_waited_for(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end every attempt is judged once, and only refused calls are repeated."""
    ask_again_at_once(monkeypatch)
    half_wrong(sweep.agent, range(12))
    judge, trainer = Outage(sweep, {WRONG: 2}), Trainer()
    await run(sweep, JUDGED, trainer)
    assert sorted(judge.asked.values()) == [1, 1, 3, 3]
    assert sweep.sql("select count(*), count(value) from scores where scorer = 'process'") == [
        (4, 4)
    ]
    assert trainer.batches[0].said["groups"] == COUNTS | {"kept": 2}


async def test_an_attempt_without_a_verdict_is_not_one_without_a_pick(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two correct answers only one is judged: their group is left out and counted, nothing of
    the outage is stored, and the same job makes the request again."""
    ask_again_at_once(monkeypatch)
    sweep.agent.odd |= {f"what is {n} + 1": [f"surely \\boxed{{{n + 1}}}"] for n in range(12)}
    judge, trainer = Outage(sweep, {"surely": 99}), Trainer()
    await run(sweep, JUDGED, trainer)
    (batch,) = trainer.batches
    assert sweep.sql("select distinct correct from attempts") == [(True,)]
    assert batch.said["groups"] == COUNTS | {"unjudged": 2} and batch.rows == []
    assert sweep.sql("select count(*) from scores where scorer = 'process'") == [(2,)]
    judge.refused = {}
    again = Trainer()
    await run(sweep, JUDGED, again)
    assert again.batches[0].said["groups"]["unjudged"] == 0
    assert sweep.sql("select count(*) from scores where scorer = 'process'") == [(4,)]


async def test_a_job_ends_before_its_wall_time_with_every_step_it_began(sweep: Sweep) -> None:
    """A later run continues from there."""
    half_wrong(sweep.agent, range(12))
    job, first = policy_job(steps=3), Trainer()
    with pytest.raises(WallTimeReached):
        await run(sweep, job, first, stop_at=time.time())
    assert len(first.batches) == 1
    rest = Trainer(before=1, figures=first.figures)
    policy = await run(sweep, job, rest)
    assert len(rest.batches) == 2 and [row["step"] for row in policy.done] == [1, 2, 3]
    twice = "select sample_id from attempts group by 1 having count(*) > 1"
    assert sweep.sql(twice) == []


@pytest.mark.parametrize(("left_s", "steps"), [(250.0, 1), (350.0, 2), (450.0, 3)])
async def test_a_step_begins_only_where_two_of_the_longest_fit_in(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, left_s: float, steps: int
) -> None:
    """Each step takes 100 s."""
    half_wrong(sweep.agent, range(12))
    clock = [1000.0]

    def read() -> float:
        clock[0] += 0.001
        return clock[0]

    monkeypatch.setattr(loop, "time", SimpleNamespace(time=read, monotonic=read))

    class Slow(Trainer):
        async def train(self, step: int, batch: StepBatch) -> StepDone:
            clock[0] += 100.0
            return await super().train(step, batch)

    job = policy_job(steps=9, rollouts={"groups": 2, "group_size": 2, "staleness": 0})
    trainer = Slow()
    with pytest.raises(WallTimeReached):
        await run(sweep, job, trainer, stop_at=clock[0] + left_s)
    assert len(trainer.batches) == steps


@pytest.mark.parametrize(
    ("said", "numbers"),
    [("[0, 2]", [0, 2]), ("first [1], no: [3]", [3]), ("none: []", []), ("turn 3", None)],
)
def test_the_last_list_of_an_answer_is_what_the_judge_picked(
    said: str, numbers: list[int] | None
) -> None:
    assert numbers_in(said) == numbers
