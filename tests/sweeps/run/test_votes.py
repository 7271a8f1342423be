"""Tests that the answer read by a scorer is an attempt's vote: from the reply to majority@k and
NeMo-Skills' files.

The runner itself makes the rows with a scripted model: GSM8K's rows with four trials.
"""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep, config_of
from tutti import storage
from tutti.tasks.exchange.nemo_skills import write_run
from tutti.tasks.sweeps.plan.plan import plan_of
from tutti.tasks.sweeps.plan.task_set import enter_task_set
from tutti.tasks.sweeps.spec import Suite

SAID = {
    "2 apples and 2 more?": ("#### 4", "I cannot tell.", "I cannot tell.", "I cannot tell."),
    "1 apple and 2 more?": (
        "So \\boxed{3} of 9.",
        "#### 3\n(1 + 2)",
        "It is five: 5",
        "Who knows?",
    ),
    "5 apples and none?": ("Hm.", "Hm.", "Hm.", "Hm."),
}
"""By its question, what the model says at each trial. The right answers are 4, 3 and 5."""
ANSWERS = {None: 3 + 1 + 4, "4": 1, "3": 2, "5": 1}
MAJORITY = (1.0 + 1.0 + 0.0) / 3


async def measured(sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Measure the rows with four trials and return the cell's id."""
    left = {question: list(said) for question, said in SAID.items()}

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.Response:
        text = body["messages"][-1]["content"]
        question = next(each for each in left if each in text)
        return web.json_response(completion(left[question].pop()))

    monkeypatch.setattr(Agent, "__call__", reply)
    data = folder / "gsm8k"
    data.mkdir()
    rows = [{"question": q, "answer": f"#### {n}"} for q, n in zip(SAID, (4, 3, 5), strict=True)]
    (data / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"benchmark": "gsm8k:4", "source": data, "concurrency": (1,), "temperature": 1.0}
    suite = Suite(policies=("passthrough",)).with_fields(given)
    plan = plan_of(suite, config_of(enter_task_set(suite, sweep.catalog), index_id=None))
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (12, 3)
    return plan.cells[0].cell_id


async def test_a_reply_that_cannot_be_read_is_no_vote(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scores.answer` is null, and the attempt's answer is the model's text."""
    await measured(sweep, tmp_path, monkeypatch)
    read = dict(sweep.sql("select answer, count(*) from scores group by 1"))
    assert read == ANSWERS
    assert sweep.sql("select count(*) from attempts where answer = 'I cannot tell.'") == [(3,)]
    name = sweep.sql("select any_value(name) from sweeps")[0][0]
    ((n, value),) = sweep.sql(f"select n, value from majority_at_k('{name}', 4)")
    assert (n, value) == (3, pytest.approx(MAJORITY))


async def test_nemo_skills_files_tell_replies_without_an_answer(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`predicted_answer` is null; by its metrics one of three tasks has no answer in four seeds."""
    cell = await measured(sweep, tmp_path, monkeypatch)
    with closing(storage.connect(sweep.catalog.home)) as connection:
        written = write_run(connection, [(cell, "gsm8k")], tmp_path / "out")
    *seeds, metrics = written.files
    rows = [json.loads(line) for file in seeds for line in file.read_text().splitlines()]
    found = [row["predicted_answer"] for row in rows]
    assert {answer: found.count(answer) for answer in set(found)} == ANSWERS
    blocks = json.loads(metrics.read_text())["gsm8k"]
    assert blocks["majority@4"]["symbolic_correct"] == pytest.approx(100 * MAJORITY)
    assert blocks["majority@4"]["no_answer"] == pytest.approx(100 / 3)
    assert blocks["pass@1[avg-of-4]"]["no_answer"] == pytest.approx(100 * 8 / 12)
