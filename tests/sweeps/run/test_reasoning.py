"""Tests of reasoning in a reply's text through a whole sweep: the scored, stored and rescored
text."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep, config_of
from tests.sweeps.run.asking import asking
from tutti.storage import connect
from tutti.tasks.sweeps.analysis.arena import answers_of
from tutti.tasks.sweeps.analysis.compare import Side
from tutti.tasks.sweeps.analysis.rescore import ScoringRequest, rescore
from tutti.tasks.sweeps.plan.plan import CellIds, Plan, plan_of
from tutti.tasks.sweeps.plan.task_set import enter_task_set
from tutti.tasks.sweeps.spec import Suite

THOUGHT, UNFINISHED = "<think>x</think>Paris", "<think>so it is Paris"


async def measured(
    sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch, said: Any, **fields: Any
) -> Plan:
    """Measure one question with answer Paris, scorer `exact` and the reply `said`, and return the
    plan."""
    bodies: list[Mapping[str, Any]] = []

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.Response:
        bodies.append(body)
        answer = completion("" if isinstance(said, dict) else said)
        answer["choices"][0]["message"] |= said if isinstance(said, dict) else {}
        return web.json_response(answer)

    monkeypatch.setattr(Agent, "__call__", reply)
    file = folder / "capitals.jsonl"
    file.write_text(json.dumps({"question": "Of France?", "answer": "Paris"}) + "\n")
    given = {"scorer": "exact", "concurrency": (1,)} | fields
    base = Suite(benchmark=str(file), policies=("passthrough",), data={"scorer": "exact"})
    suite = base.with_fields(given)
    plan = plan_of(
        suite, replace(config_of([], index_id=None), task_set=enter_task_set(suite, sweep.catalog))
    )
    assert (await sweep.run(plan, sweep.enter(plan))).counted == 1
    return plan


@pytest.mark.parametrize(
    ("said", "setting", "correct", "answer", "reasoning"),
    [
        (THOUGHT, "auto", True, "Paris", "x"),
        (THOUGHT, "off", False, THOUGHT, None),
        (UNFINISHED, "auto", False, None, "so it is Paris"),
        ("x</think>Paris", "auto", False, "x</think>Paris", None),
        ("x</think>Paris", "</think>", True, "Paris", "x"),
        ("Paris", "</think>", False, None, "Paris"),
        ("Paris", "auto", True, "Paris", None),
        ({"content": "Paris", "reasoning_content": "x"}, "</think>", True, "Paris", "x"),
    ],
)
async def test_what_of_a_reply_is_scored(
    said: Any,
    setting: str,
    correct: bool,
    answer: str | None,
    reasoning: str | None,
    sweep: Sweep,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reply without reasoning is scored, and its reasoning is in `messages.reasoning`. Scored
    again, nothing flips."""
    plan = await measured(sweep, tmp_path, monkeypatch, said, reasoning=setting)
    assert sweep.sql("select correct, answer from attempts") == [(correct, answer)]
    stored = sweep.sql("select content, reasoning from messages where call_id is not null")
    assert stored == [(answer or "", reasoning)]
    assert sweep.sql("select answer from scores") == [(answer,)]
    found = await rescore(plan.sweep_id, sweep.catalog)
    assert (found.scored, found.flipped) == (1, [])


PROGRAM = asking("Of France?", 'text.partition("<think>")[2].partition("<")[0]')
"""A harness that takes its answer out of the reasoning."""


@pytest.mark.parametrize("reasoning", [None, "auto", "off"])
async def test_a_harness_may_have_its_answer_from_the_reasoning(
    reasoning: str | None, sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scored again, the harness's answer is used; it used to be lost."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command, said = f"{{python}} {program}", "<think>Paris</think>I said it."
    plan = await measured(sweep, tmp_path, monkeypatch, said, command=command)
    assert sweep.sql("select correct, answer from attempts") == [(True, "Paris")]
    found = await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(reasoning=reasoning))
    assert (found.scored, found.flipped) == (1, [])
    assert sweep.sql("select distinct answer from scores") == [("Paris",)]


async def test_stored_texts_are_separated_when_they_are_scored_again_or_compared(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep left the texts whole: by its own setting they stay; by another they are parsed
    again. An arena's judge sees only the reply."""
    plan = await measured(sweep, tmp_path, monkeypatch, THOUGHT, reasoning="off")
    assert (await rescore(plan.sweep_id, sweep.catalog)).flipped == []
    found = await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(reasoning="auto"))
    assert [flip["now"] for flip in found.flipped] == [True]
    assert sweep.sql("select arg_max_null(answer, scored_at) from scores") == [("Paris",)]
    side = Side("a", "cell", ({"cell_id": plan.cells[0].cell_id},))
    other = Side("b", "cell", ({"cell_id": plan.cells[0].cell_id},))
    with connect(sweep.catalog.home, macros=("counted",)) as connection:
        for setting, text in (("auto", "Paris"), ("off", THOUGHT)):
            answers = answers_of(connection, [side, other], None, setting)
            assert [one.text for one in answers["a"].values()] == [text]


async def test_what_an_unfinished_thought_says_is_no_answer_of_a_stored_text(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await measured(sweep, tmp_path, monkeypatch, "<think>\nParis", reasoning="off")
    await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(reasoning="auto"))
    assert sweep.sql("select arg_max_null(answer, scored_at) from scores") == [(None,)]
    side = Side("a", "cell", ({"cell_id": plan.cells[0].cell_id},))
    with connect(sweep.catalog.home, macros=("counted",)) as connection:
        answers = answers_of(connection, [side, Side("b", "cell", side.cells)], None)
    assert [one.text for one in answers["a"].values()] == [""]


def test_the_setting_is_in_the_sweeps_id_and_its_default_is_not() -> None:
    """`off` in a YAML file is read as false."""
    plain = config_of([])
    ids = [
        CellIds(Suite.model_validate({"sampling": sampling}), plain, None).sweep_id
        for sampling in ({}, {"reasoning": "auto"}, {"reasoning": False}, {"reasoning": "</think>"})
    ]
    assert ids[0] == ids[1] and len(set(ids)) == 3
    assert Suite.model_validate({"sampling": {"reasoning": False}}).sampling.reasoning == "off"
