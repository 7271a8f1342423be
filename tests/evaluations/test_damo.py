"""Tests of API-Bank's level 3, calls by execution, and FlowBench, end to end with scripted models
and files constructed in the publishers' formats, because the originals are not available
offline."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.api_bank.test_session import found, level_3_call
from tests.benchmarks.test_flowbench import row as session_row
from tests.evaluations.scripted import lines, players, sweep, text_of, tutti
from tests.evaluations.test_originals import _store as _store  # the fixture: a store of its own
from tests.evaluations.test_originals import suite
from tests.scoring.published.test_api_bank_executed import GOLD, PARSER, RESULT
from tests.scoring.published.test_api_bank_executed import checkout as checkout  # the fixture
from tests.scoring.published.test_api_bank_level_3 import MANAGER as LEVEL_3_MANAGER

pytestmark = pytest.mark.slow

SEARCHER = "ToolSearcher"


def calling(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a reply that makes a call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call-{name}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call], "finish_reason": "tool_calls"}


def made_by(body: dict[str, Any]) -> list[str]:
    """Return the names of the calls in a request's messages."""
    calls = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
    return [call["function"]["name"] for call in calls]


def test_api_bank_level_3(tmp_path: Path) -> None:
    """By ``lv3_evaluator.py``, a sample with one wrong call is wrong, so with one such sample of
    four (4 - 1) / 4 are correct. The agent searches for each tool and calls the one returned."""
    samples = []
    for number in range(4):
        city = f"city {number}"
        calls = [
            level_3_call(SEARCHER, found("Weather", city="d"), keywords="weather"),
            level_3_call("Weather", "rain", city=city),
            level_3_call(SEARCHER, found("Hotel", city="d"), keywords="hotel"),
            level_3_call("Hotel", f"hotel of {city}", city=city),
        ]
        samples.append({"requirement": f"Plan a trip to {city}.", "apis": calls})
    (tmp_path / "level-3.json").write_text(json.dumps(samples))

    def plan(body: dict[str, Any]) -> dict[str, Any]:
        done, said = made_by(body), text_of(body)
        city = next((f"city {n}" for n in range(4) if f"city {n}" in said), "")
        wrong = city == "city 2"  # calls the second tool for another city, which has no record
        steps = [
            (SEARCHER, {"keywords": "weather"}),
            ("Weather", {"city": city}),
            (SEARCHER, {"keywords": "hotel"}),
            ("Hotel", {"city": "elsewhere" if wrong else city}),
        ]
        return calling(*steps[len(done)]) if city and len(done) < 4 else {"content": "Done."}

    asked = suite("level-3", "api-bank-3", data={"source": str(tmp_path / "level-3.json")})
    with players(tmp_path, solver=plan) as registry:
        rows = sweep(tmp_path, registry, asked)
    assert {row["scorer"] for row in rows} == {"api_bank_session"} and len(rows) == 4
    details = {row["task_id"]: json.loads(row["detail"]) for row in rows if not row["correct"]}
    (detail,) = details.values()
    assert (detail["missed"], detail["calls"], detail["made"]) == (["Hotel"], 2, 4)
    (cell,) = json.loads(tutti("report", "level-3", "--json"))["cells"]
    assert cell["accuracy"] == pytest.approx((4 - 1) / 4)


SAMPLES = """
select avg(whole::int) share from (
    select bool_and(a.correct) whole from attempts a
    join tasks t on t.task_id = a.task_id join cells c using (cell_id)
    where t.task_set_id = c.task_set_id group by t.slots->>'sample'
)
"""
"""As docs/evaluations.md has it."""


def test_api_bank_level_3_by_execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``lv3_evaluator.py``, each call is executed after the gold ones and checked by the gold
    API, with accuracy by call and by sample. The model's own keywords find the tool."""
    (tmp_path / "tool_manager.py").write_text(LEVEL_3_MANAGER)
    (tmp_path / "api_call_extraction.py").write_text(PARSER)
    monkeypatch.setenv("TUTTI_HARNESS_API_BANK", sys.executable)
    monkeypatch.setenv("TUTTI_API_BANK", str(tmp_path))
    samples = []
    for city in ("Rome", "Paris"):
        search = level_3_call(SEARCHER, found("QueryMeeting", city="d"), keywords="QueryMeeting")
        call = level_3_call("Open", {"rooms": city}, city=city)
        samples.append({"requirement": f"meet in {city}", "apis": [search, call]})
    (tmp_path / "level-3.json").write_text(json.dumps(samples))

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if not made_by(body):
            return calling(SEARCHER, {"keywords": "a meeting to be retrieved"})
        return calling("Open", {"city": "Rome"})  # of the second sample it is Paris

    data = {"source": str(tmp_path / "level-3.json"), "rule": "executed_words"}
    with players(tmp_path, solver=answer) as registry:
        rows = sweep(tmp_path, registry, suite("calls-3", "api-bank-3-call", data=data))
    assert {row["scorer"] for row in rows} == {"api_bank_3_words"}
    assert sorted(bool(row["correct"]) for row in rows) == [False, True, True, True]
    ((share,),) = [list(row.values()) for row in json.loads(tutti("sql", "--json", SAMPLES))]
    assert share == 0.5


def test_api_bank_by_execution(checkout: Path, tmp_path: Path) -> None:
    """As in ``evaluator.py``, `data.rule: executed` runs the call. The rule from recorded results
    rejects a call with an additional argument whose execution gives the gold result; `tutti score`
    applies both rules."""
    dialogue = checkout / "lv1-lv2-samples" / "level-1-given-desc" / "one.jsonl"
    gold = {"role": "API", "api_name": "Note", "param_dict": GOLD, "result": RESULT}
    lines(dialogue, [{"role": "User", "text": "note tea"}, gold])

    def note(body: dict[str, Any]) -> dict[str, Any]:
        return (
            calling("Note", GOLD | {"n": "1"}) if "note tea" in text_of(body) else {"content": ""}
        )

    data = {"source": str(checkout), "rule": "executed"}
    with players(tmp_path, solver=note) as registry:
        rows = sweep(tmp_path, registry, suite("executed", "api-bank-1", data=data))
    assert [(row["scorer"], row["correct"]) for row in rows] == [("api_bank", True)]
    tutti("score", "executed", "--scorer", "api_bank_recorded")
    tutti("score", "executed", "--scorer", "api_bank")
    told = "select scorer, correct, detail->>'error' error from scores order by scored_at"
    scores = json.loads(tutti("sql", "--json", told))
    assert [(one["scorer"], one["correct"], one["error"]) for one in scores] == [
        ("api_bank", True, None),
        ("api_bank_recorded", False, "INVALID_INPUT_PARAMETER"),
        ("api_bank", True, None),
    ]


def test_execution_without_a_checkout_is_refused_at_the_start(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised before a model is called and says how to fix it."""
    monkeypatch.delenv("TUTTI_API_BANK")
    monkeypatch.setenv("TUTTI_HARNESS_API_BANK", f"{sys.executable}-none")
    data = {"source": str(checkout), "rule": "executed"}
    with players(tmp_path) as registry, pytest.raises(AssertionError, match="make api-bank API_B"):
        sweep(tmp_path, registry, suite("refused", "api-bank-1", data=data))


KNOWLEDGE = {"shop": {"text": "Find it, then buy it."}}
APIS = [
    {"name": "find", "parameters": {"what": {"type": "string"}}},
    {"name": "buy", "parameters": {"n": {"type": "integer"}}},
]


def turn(number: int, thought: dict[str, str], response: str = "") -> dict[str, Any]:
    """Return a turn in the format of FlowBench's programs."""
    messages = [{"role": "system", "content": "workflow"}]
    messages.append({"role": "user", "content": f"turn {number}"})
    row = {"id": f"s{number}_agent_turn1", "messages": messages, "apis": APIS}
    return row | {"gt_thought": thought, "gt_response": response}


def test_flowbench_turns(tmp_path: Path) -> None:
    """As in ``turn_metric_display.py``, precision and recall of calls and parameters are sums over
    the turns, a different text is correct if the judge accepts it, and a reply without a gold call
    counts as a prediction if it makes a call."""
    find = {"Action": "find", "Action Input": json.dumps({"what": "green tea"})}
    buy = {"Action": "buy", "Action Input": json.dumps({"n": 2})}
    lines(
        tmp_path / "flow" / "shop.jsonl",
        [turn(1, find), turn(2, find), turn(3, buy), turn(4, {}, "Hi"), turn(5, {}, "Bye")],
    )
    (tmp_path / "flow" / "knowledge.json").write_text(json.dumps(KNOWLEDGE))
    replies = {
        "turn 1": calling("find", {"what": "tea that is green"}),  # the judge: the same
        "turn 2": calling("find", {"what": "coffee"}),  # the judge: another
        "turn 3": calling("buy", {"n": 2, "gift": "no"}),  # a further one is free
        "turn 4": calling("find", {"what": "x"}),  # no call was due
    }

    def act(body: dict[str, Any]) -> dict[str, Any]:
        said = text_of(body)
        return next((each for turn, each in replies.items() if turn in said), {"content": "Bye."})

    def judge(body: dict[str, Any]) -> dict[str, Any]:
        return {"content": "yes" if "tea that is green" in text_of(body) else "no"}

    asked = suite("turns", "flowbench-text", data={"source": "flow"}, roles={"judge": "judge"})
    with players(tmp_path, solver=act, judge=judge) as registry:
        rows = sweep(tmp_path, registry, asked)
    assert {row["scorer"] for row in rows} == {"flowbench_turn"}
    details = [json.loads(row["detail"]) for row in rows]
    sums = {name: sum(d[name] for d in details) for name in details[0] if name != "votes"}
    assert sums == {
        "gold_calls": 3,
        "predicted_calls": 4,
        "right_calls": 2,
        "right_names": 3,
        "gold_parameters": 3,
        "predicted_parameters": 4,
        "right_parameters": 2,
    }


def test_flowbench_sessions(tmp_path: Path) -> None:
    """As in ``session_simulate.py`` and its metrics, there is a simulated user, APIs have listed
    and generated results, the judge decides success and progress, and calls are counted."""
    both, one = session_row(), session_row(user_target="one tea")
    lines(tmp_path / "flow" / "shop.jsonl", [both, one])
    (tmp_path / "flow" / "knowledge.json").write_text(json.dumps(KNOWLEDGE))

    def user(body: dict[str, Any]) -> dict[str, Any]:
        said = text_of(body)
        if "You stand for an API" in said:
            return {"content": '{"ok": true}'}
        aim = "two teas" if "two teas" in said else "one tea"
        return {"content": "[DONE]" if "Anything else?" in said else f"I want {aim}"}

    def act(body: dict[str, Any]) -> dict[str, Any]:
        done, wants_two = made_by(body), "I want two teas" in text_of(body)
        if "I want" not in text_of(body):
            return {"content": "yes"}
        if not done:
            return calling("find", {"what": {"kind": "tea"}})
        return calling("buy", {"n": 2}) if len(done) == 1 and wants_two else {"content": ASKED}

    def judge(body: dict[str, Any]) -> dict[str, Any]:
        met = 2 if '"ok": true' in text_of(body) else 1
        form = f"Total number of goals: 2\nNumber of accomplished goals: {met}\nReason: x"
        return {"content": f"Result: {'yes' if met == 2 else 'no'}\n{form}"}

    roles = {"user": "expert", "judge": "judge"}
    asked = suite("sessions", "flowbench-text-session", data={"source": "flow"}, roles=roles)
    with players(tmp_path, solver=act, expert=user, judge=judge) as registry:
        rows = sweep(tmp_path, registry, asked)
    assert {row["scorer"] for row in rows} == {"flowbench_session"}
    details = sorted((json.loads(row["detail"]) for row in rows), key=lambda d: d["progress"])
    counted = ("success", "progress", "right_calls", "gold_calls", "predicted_calls")
    assert [tuple(d[name] for name in counted) for d in details] == [
        (False, 0.5, 1, 2, 1),
        (True, 1.0, 2, 2, 2),
    ]


ASKED = "It is done. Anything else?"
