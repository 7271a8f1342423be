"""Tests of parallel thinking in a sweep: its calls, tokens and cost are the attempt's, with
separate roles."""

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep, config_of
from tests.sweeps.run.test_tools import suite_of
from tutti.tasks.sweeps.plan.plan import plan_of
from tutti.tasks.sweeps.plan.task_set import enter_task_set
from tutti.tasks.sweeps.spec import Suite


@pytest.mark.parametrize("combine", ["select", "synthesis"])
async def test_k_solutions_and_one_answer(
    combine: str, sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of the three seeds of a row is correct, and the combining call selects it."""
    seeds: dict[str, list[int]] = {}

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.Response:
        assert "tools" not in body
        text = body["messages"][-1]["content"]
        number = int(re.findall(r"(\d+) boxes", text)[-1])
        right = f"#### {3 * number}"
        if "solution-1" in text:
            place = re.search(rf"<solution-(\d)-\w+>\n{right}\n", text)
            assert place is not None
            said = f"Verdict: {place[1]}" if combine == "select" else f"New: {right}"
            return web.json_response(completion(said))
        known = seeds.setdefault(text, [])
        known.append(body["seed"])
        return web.json_response(completion(right if len(known) == 2 else f"#### {len(known)}"))

    monkeypatch.setattr(Agent, "__call__", reply)
    asked = {"parallel": {"solutions": 3, "combine": combine}, "temperature": 0.7}
    suite = suite_of(tmp_path, **asked)
    plan = plan_of(suite, config_of(enter_task_set(suite, sweep.catalog), index_id=None))
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (2, 2)
    assert all(len(set(each)) == 3 for each in seeds.values()), "each solution has its own seed"
    role = {"select": "selector", "synthesis": "synthesizer"}[combine]
    counts = sweep.sql("select role, count(*) from calls where status = 'ok' group by 1 order by 1")
    assert counts == [("orchestrator", 6), (role, 2)]
    per_attempt = sweep.sql(
        "select a.prompt_tokens = sum(c.prompt_tokens), a.completion_tokens = "
        "sum(c.completion_tokens), a.cost_usd is not distinct from sum(c.cost_usd), count(*) "
        "from attempts a join calls c using (attempt_id) "
        "group by a.attempt_id, a.prompt_tokens, a.completion_tokens, a.cost_usd"
    )
    assert per_attempt == [(True, True, True, 4)] * 2
    runs = sweep.sql("select name, count(*) from tool_runs group by 1 order by 1")
    assert sorted(runs) == sorted([(combine, 2), ("solution", 6)])
    said = sweep.sql("select count(*) from messages m join calls c using (call_id)")
    assert said == [(2,)], "the answer is the message of the call that gave it"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"benchmark": "stdlib"}, "stdlib needs tools"),
        ({"temperature": 0.0}, "temperature 0 gives equal solutions"),
        ({"python": "once"}, r"a solution is one message; leave out harness\.python"),
        ({"agent": "pocket"}, r"leave out roles\.agent"),
        ({"parallel": {"solutions": 1}}, "greater than or equal to 2"),
    ],
)
def test_where_it_makes_no_sense(fields: dict[str, Any], words: str) -> None:
    base = {"benchmark": "gsm8k", "temperature": 0.7, "parallel": {"solutions": 2}}
    with pytest.raises(ValidationError, match=words):
        Suite().with_fields(base | fields)
