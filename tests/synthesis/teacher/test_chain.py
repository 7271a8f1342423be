"""Tests of one whole domain from a topic to tasks, by a scripted teacher: faults are returned with
the error, the golden calls replay, and a later run makes no requests.

No strong model was available: the responses are hand-written.
"""

from pathlib import Path

from tests.synthesis.teacher.conftest import NewTeacher, fault_counts
from tests.synthesis.teacher.lending import SCRIPT, SIZES
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti.tasks.synthesis.domains import Toolkit, read_domain_folder, write_domain_folder
from tutti.tasks.synthesis.teacher import (
    Chain,
    Teacher,
    TeacherBudget,
    TeacherRequest,
    TeacherTasks,
    make_tasks,
    read_prompts,
)

REQUEST = TeacherRequest(topic="the desk of a small library", **SIZES)


async def made(teacher: Teacher) -> TeacherTasks:
    return await make_tasks(Chain(REQUEST, teacher))


async def test_a_domain_end_to_end(new_teacher: NewTeacher, tmp_path: Path) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            found = await made(teacher)
            assert fault_counts(teacher.store) == {"check": 9}  # 5 corrected, 2 given up
            assert found.unfinished == {}
    assert [task.template for task in found.tasks] == ["renew", "days_left", "renew"]
    async with Toolkit(found.domain) as toolkit:
        replays = await toolkit.replay(found.tasks)
    assert [replay.failure for replay in replays] == ["", "", ""]
    assert [replay.after for replay in replays] == [task.world.expected for task in found.tasks]
    assert [replay.before == replay.after for replay in replays] == [False, True, False]
    assert found.domain.records["loans"]["LO0002"]["card"] == "CA0001"
    assert found.tasks[2].world.evolved_from == found.tasks[0].task_id
    assert found.tasks[0].split == found.tasks[2].split
    assert found.tasks[0].sources == ("cards/CA0001", "loans/LO0001")
    write_domain_folder(tmp_path, found.domain, found.tasks)
    domain, tasks = read_domain_folder(tmp_path)
    assert (domain, tuple(tasks)) == (found.domain, tuple(found.tasks))


async def test_rejects_are_kept_with_their_reason(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            rejects = {(step, row): why for step, row, why in (await made(teacher)).rejects}
    assert set(rejects) == {("task", "2"), ("evolution", "1.1")}
    assert "no-op would solve it" in rejects["task", "2"]
    assert "not harder: 2 calls" in rejects["evolution", "1.1"]


async def test_what_is_sent_back_has_the_exact_error(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            await made(teacher)
        sent = {name: body["messages"][-1]["content"] for name, body, _ in endpoint.asked}
    assert "card: 'CA0009' is no key of cards" in sent["records-loans-0-0"]
    told = "renew_loan: its code takes (days, loan_id), its spec says (loan_id, days=…)"
    assert told in sent["toolkit"]
    assert "at_most_28: its function does not forbid renew_loan" in sent["policy"]
    assert "call 3: a rule: a loan has at most 28 days left" in sent["task-0"]


async def test_a_later_run_asks_nothing_again(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            first = await made(teacher)
        calls = endpoint.calls()
        async with new_teacher(endpoint) as teacher:
            second = await made(teacher)
        assert endpoint.calls() == calls
    assert (first.domain, first.tasks, first.rejects) == (
        second.domain,
        second.tasks,
        second.rejects,
    )


async def test_a_budget_stops_between_rows_and_the_next_run_goes_on(
    new_teacher: NewTeacher,
) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint, TeacherBudget(calls=11), concurrency=1) as teacher:
            short = await made(teacher)
        assert endpoint.calls() == 11
        assert short.unfinished and all("11 calls" in why for why in short.unfinished.values())
        async with new_teacher(endpoint) as teacher:
            whole = await made(teacher)
        assert len(whole.tasks) == 3 and whole.unfinished == {}
        assert set(endpoint.answered.values()) == {1}


async def test_the_lineage_names_model_and_prompts(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            lineage = (await made(teacher)).domain.lineage
    assert (lineage["generator"], lineage["model"]) == ("teacher", "m")
    prompts = {each["name"]: each for each in lineage["prompts"]}
    assert {"tables", "records", "toolkit", "policy", "intents", "task", "evolve"} <= set(prompts)
    assert prompts["task"] == read_prompts()["task"].lineage
