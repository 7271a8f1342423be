"""Tests of profiles of measured runs: shares with intervals, costs, texts by rule or by a teacher,
files."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthesis.measured import enter_attempts, lending_set, tasks_of
from tests.synthesis.teacher.conftest import QUICK
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti import storage
from tutti.errors import UsageError
from tutti.tasks.agents.orchestrator import read_agent
from tutti.tasks.synthesis import TeacherPool, open_teachers
from tutti.tasks.synthesis.preferences import (
    PreferenceRequest,
    PreferenceSource,
    describe_profile,
    measure_profile,
    read_profile,
    write_profile,
)
from tutti.tasks.synthesis.preferences.profile import Profile, Rate, Subject, description_reason
from tutti.tasks.synthesis.teacher import TeacherEndpoint
from tutti.tasks.task_sets import make_set

EXPERT = {"model": "big", "prices": {"prompt": 1.0, "completion": 2.0}, "latency_s": 30,
          "skills": "Said before.", "max_tokens": 100}  # fmt: skip
AGENT = {"system": "Choose.", "tools": {"call_expert": {
    "description": "x", "experts": {"expert-1": EXPERT, "expert-2": EXPERT | {"model": "new"}},
}}}  # fmt: skip


async def measured(catalog: storage.Catalog) -> str:
    """Store ten tasks with two attempts each: six tasks correct, half of the attempts call an
    expert, and all call a tool. One more attempt belongs to no set's task."""
    made = await lending_set(catalog, 10)
    tasks = tasks_of(catalog, made)
    enter_attempts(catalog, tasks, {n: [n < 6] * 2 for n in range(10)}, "boss")
    calls: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for n in range(10):
        own = {"attempt_id": f"boss-{n}-0"}
        calls += [own | {"call_id": f"c{n}{k}", "role": "expert", "model": "big", "status": "ok",
                         "cost_usd": 0.25, "latency_s": 4.0} for k in range(2)]  # fmt: skip
        runs += [{"attempt_id": f"boss-{n}-{k}", "name": "find_member", "status": "ok",
                  "started_at": storage.now(), "ended_at": storage.now(), "cost_usd": 0.0}
                 for k in range(2)]  # fmt: skip
    other = {"task_id": "other", "family": "math", "task_set_id": "c", "slots": '{"id": "7"}'}
    lone = {"task_id": "other", "attempt_id": "z", "status": "ok", "model": "boss",
            "correct": False, "cost_usd": None, "working_s": 1.0}  # fmt: skip
    rows = {"calls": calls, "tool_runs": runs, "tasks": [other], "attempts": [lone]}
    storage.commit(catalog, rows)
    return made


def of(profile: Profile, kind: str, name: str) -> Subject:
    (found,) = [each for each in profile.subjects if (each.kind, each.name) == (kind, name)]
    return found


async def test_shares_are_of_tasks_and_have_intervals(catalog: storage.Catalog) -> None:
    """Two equal attempts at a task count as one, an attempt counts once for an expert that it
    called twice, and an unknown cost makes the mean unknown."""
    made = await measured(catalog)
    every = measure_profile(catalog.home)
    boss = of(every, "model", "boss")
    assert (boss.all.tasks, boss.all.attempts, boss.all.right) == (11, 21, 12)
    assert boss.all.share == pytest.approx(6 / 11) and boss.cost_usd is None
    assert sorted(rate.tasks for rate in boss.by_kind) == [1, 10]
    of_set = measure_profile(catalog.home, made)
    boss, expert = of(of_set, "model", "boss"), of(of_set, "expert", "big")
    assert (boss.all.tasks, boss.all.attempts) == (10, 20)
    assert boss.cost_usd == pytest.approx(0.5) and boss.latency_s == pytest.approx(2.0)
    assert (expert.all.tasks, expert.all.attempts, expert.all.right) == (10, 10, 6)
    assert expert.cost_usd == pytest.approx(0.25) and expert.latency_s == pytest.approx(4.0)
    low, high = boss.all.low, boss.all.high
    assert low is not None and high is not None and low < 0.6 < high and high - low > 0.4
    assert of(of_set, "tool", "find_member").all.attempts == 20
    assert "When asked: right in 6 of 10 (" in expert.text and "0.25 USD and 4 s" in expert.text


async def test_the_files_can_be_edited_and_are_taken(
    catalog: storage.Catalog, tmp_path: Path
) -> None:
    """The agent's experts get the measured text and latency, an unmeasured expert keeps its own; a
    set with preferences shows the tools' texts."""
    made = await measured(catalog)
    agent = tmp_path / "agent.yaml"
    agent.write_text(yaml.safe_dump(AGENT))
    profile = measure_profile(catalog.home, made)
    file, written = write_profile(profile, tmp_path / "out", str(agent))
    assert read_profile(file) == profile
    tool = read_agent(str(written)).tools.call_expert
    assert tool is not None
    assert tool.experts["expert-1"].skills == (of(profile, "expert", "big").text,)
    assert tool.experts["expert-1"].latency_s == pytest.approx(4.0)
    assert tool.experts["expert-2"].skills == ("Said before.",)
    edited = file.read_text().replace("Attempts that used it", "My own words")
    file.write_text(edited)
    request = PreferenceRequest(task_set=made, measured=file)
    kept = await make_set(PreferenceSource(request, catalog), catalog)
    offers = [task.world.offer for task in tasks_of(catalog, kept)]
    assert all(offer and "My own words" in offer.about("find_member", "x") for offer in offers)


def test_what_cannot_be_written_or_read_is_said(tmp_path: Path) -> None:
    agent = tmp_path / "agent.yaml"
    agent.write_text(yaml.safe_dump(AGENT))
    with pytest.raises(UsageError, match="none of its experts was measured; the store has nothing"):
        write_profile(Profile(), tmp_path, str(agent))
    with pytest.raises(UsageError, match=r"no-such\.yaml: no such file"):
        read_profile(tmp_path / "no-such.yaml")
    (tmp_path / "profile.yaml").write_text("subjects: [{kind: robot, name: x}]")
    with pytest.raises(UsageError, match=r"profile\.yaml.*kind"):
        read_profile(tmp_path / "profile.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Right in 6 of 10.", ""),
        ("Right in 7 of 10.", "text: 7 is in no measurement"),
        ("", "0 characters"),
        ("x" * 501, "501 characters"),
    ],
)
def test_a_description_invents_no_number(text: str, said: str) -> None:
    why = description_reason(text, "right in 6 of 10")
    assert said in why and bool(why) == bool(said)


async def test_a_teachers_text_is_checked_against_the_measurements(
    tmp_path: Path,
) -> None:
    """One text is returned and then correct; another stays wrong, and the rule's text is kept."""
    rate = Rate(kind="all", tasks=10, attempts=10, right=6, share=0.6, low=0.3, high=0.8)
    good = Subject(kind="expert", name="big", all=rate, text="When asked: right in 6 of 10.")
    bad = good.model_copy(update={"name": "small"})
    profile = Profile(subjects=(good, bad))

    class Endpoint(ScriptedEndpoint):
        def _next(self, name: str) -> Any:
            asked = self.asked[-1][1]["messages"]
            is_second = len(asked) > 1 and "`big`" in asked[0]["content"]
            return {"text": "Right in 6 of 10." if is_second else "Right in 99 of 100."}

    async with serving(Endpoint({})) as endpoint:
        where = TeacherEndpoint(endpoint.url, "m", call_s=5.0, retry=QUICK)
        async with open_teachers(TeacherPool([where], [None]), tmp_path) as ((teacher,), meter):
            described, kept = await describe_profile(profile, teacher)
    assert meter.calls == endpoint.calls() == 4
    assert [each.text for each in described.subjects] == [
        "Right in 6 of 10.",
        "When asked: right in 6 of 10.",
    ]
    assert list(kept) == ["expert small"] and "99 is in no measurement" in kept["expert small"]
