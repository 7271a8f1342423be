"""Tests of scores of a gateway's programs: by labels and by targets, and their effect on attempts
and results."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.maintenance import compact, verify
from tutti.storage.programs.states import begin_program, end_program
from tutti.storage.programs.tally import ProgramCell, ProgramTally, sweep_of_gateway
from tutti.tasks.sweeps.analysis import ScoringRequest, score_programs
from tutti.tasks.sweeps.spec import SuiteError

NAME = "mine"
SWEEP = sweep_of_gateway(NAME)
CELL = ProgramCell(NAME, "m", "adaptive")
AT = datetime(2026, 11, 23, tzinfo=UTC)
CALL: dict[str, Any] = {
    "cell_id": CELL.cell_id, "role": "orchestrator", "endpoint": "e", "held_s": 0.0,
    "prompt_tokens": 5, "cached_tokens": 1, "completion_tokens": 2, "finish_reason": "stop",
    "status": "ok", "http_status": 200, "cost_usd": None,
}  # fmt: skip


def enter(catalog: storage.Catalog, program: str, answer: str, **call: Any) -> None:
    """Store a program of one call with the reply `answer`, as a gateway records it."""
    tally = ProgramTally(program, CELL)
    row = CALL | {"attempt_id": program, "call_id": f"c-{program}"} | call
    row |= {"sent_at": AT, "ended_at": AT + timedelta(seconds=1), "sweep_id": SWEEP}
    tally.take(row)
    said = {"role": "assistant", "content": answer}
    tally.take_answer(said)
    attempt = tally.row("released", "run")
    message = {"attempt_id": program, "position": 1, "call_id": row["call_id"], "sweep_id": SWEEP}
    rows = {"calls": [row], "attempts": [attempt], "messages": [message | said]}

    def complete(connection: sa.Connection) -> None:
        begin_program(connection, program, CELL, "run", AT)
        end_program(connection, program, attempt["status"])

    storage.commit(catalog, rows, complete)


@pytest.fixture
def programs(catalog: storage.Catalog) -> storage.Catalog:
    """Store four programs: two with one id, one that failed."""
    for name, answer in (("a", "so \\boxed{4}"), ("b", "5"), ("b#2", "four")):
        enter(catalog, name, answer)
    enter(catalog, "c", "", status="infra_error", http_status=500)
    return catalog


async def scored(catalog: storage.Catalog, tmp_path: Path, *lines: Any, **more: Any) -> Any:
    """Return the result of scoring with a file of these lines."""
    file = tmp_path / "wanted.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return await score_programs(SWEEP, catalog, ScoringRequest(file, **more))


def verdicts(catalog: storage.Catalog) -> dict[str, Any]:
    """Return the newest score and correctness of every attempt; the columns of `attempts` never
    change."""
    sql = (
        "select attempt_id, arg_max(value, scored_at) as score, any_value(a.score) as own, "
        "arg_max(s.correct, scored_at) as correct "
        "from attempts a left join scores s using (attempt_id) group by 1 order by 1"
    )
    rows = storage.query(sql, catalog.home)
    assert {row["own"] for row in rows} == {None}
    return {row["attempt_id"]: (row["score"], row["correct"]) for row in rows}


NONE = (None, None)


async def test_targets_are_scored_by_a_scorer(programs: storage.Catalog, tmp_path: Path) -> None:
    """One line applies to all attempts of a program; failed ones are not scored, and nothing is
    lost."""
    lines = [{"program": "a", "answer": "4"}, {"program": "b", "answer": "5"}]
    done = await scored(programs, tmp_path, *lines, {"program": "c", "answer": "1"}, scorer="math")
    assert (done.scored, done.uncounted, done.unscored, done.failed) == (3, 1, 0, {})
    right, wrong = (1.0, True), (0.0, False)
    assert verdicts(programs) == {"a": right, "b": right, "b#2": wrong, "c": NONE}
    (found,) = storage.query("select n, correct, n_infra, score from results", programs.home)
    assert found == {"n": 3, "correct": 2, "n_infra": 1, "score": pytest.approx(2 / 3)}
    rows = storage.query("select scorer, count(*) as n from scores group by all", programs.home)
    assert [row["n"] for row in rows] == [3]
    assert verify(programs, min_age_s=0).findings == []
    compact(programs)
    assert verdicts(programs)["a"] == right


async def test_labels_are_taken_and_may_be_given_again(
    programs: storage.Catalog, tmp_path: Path
) -> None:
    """Results show the last label; both are rows of scores. Other programs stay without verdict."""
    await scored(programs, tmp_path, {"program": "a", "correct": False})
    assert verdicts(programs) == {"a": (0.0, False), "b": NONE, "b#2": NONE, "c": NONE}
    again = await scored(programs, tmp_path, {"attempt_id": "a", "score": 0.5, "correct": True})
    assert [flip["attempt_id"] for flip in again.flipped] == ["a"] and again.unscored == 3
    assert verdicts(programs)["a"] == (0.5, True)
    assert storage.query("select count(*) as n from scores", programs.home) == [{"n": 2}]
    (found,) = storage.query("select n, score from results", programs.home)
    assert found == {"n": 1, "score": 0.5}, "the mean score, as one of its scores is in between"


async def test_programs_become_trials_of_a_task(programs: storage.Catalog, tmp_path: Path) -> None:
    """The file assigns a program to a task; other lines then name the task."""
    named = [{"program": name, "task_id": "t", "correct": False} for name in "ab"]
    await scored(programs, tmp_path, *named)
    sql = "select task_id, trial from attempts where task_id = 't' order by trial"
    rows = [tuple(row.values()) for row in storage.query(sql, programs.home)]
    assert rows == [("t", 0), ("t", 1), ("t", 2)]
    await scored(programs, tmp_path, {"task_id": "t", "answer": "5"}, scorer="math")
    (found,) = storage.query("select trials, pass_at_k, pass_hat_k from results", programs.home)
    assert found == {"trials": 3, "pass_at_k": 1.0, "pass_hat_k": 0.0}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"correct": True}, ":1: names none of"),
        ({"program": "a"}, ":1: needs either"),
        ({"program": "a", "correct": True, "answer": "4"}, ":1: needs either"),
        ({"program": "a", "correct": "yes"}, ":1: correct: .*'yes'"),
        ({"program": "a", "score": float("nan")}, ":1: score: .*nan"),
        ({"program": 3, "correct": True}, ":1: program: .*3"),
        ({"program": "z", "correct": True}, "program 'z' has no attempt"),
        ({"program": "a", "corect": True}, ":1: corect: .*did you mean"),
        ({"program": "a", "target": "4"}, ":1: target: .*object"),
        ([], ":1: file: "),
    ],
)
async def test_a_bad_line_is_named(
    programs: storage.Catalog, tmp_path: Path, line: Any, message: str
) -> None:
    """No program is scored then."""
    with pytest.raises(SuiteError, match=message):
        await scored(programs, tmp_path, line)
    assert set(verdicts(programs).values()) == {NONE}


async def test_only_a_gateways_sweep_is_scored_so(
    programs: storage.Catalog, tmp_path: Path
) -> None:
    """The tasks of other sweeps have their own targets."""
    row: Mapping[str, Any] = {"sweep_id": "sweep:1", "name": "n", "spec": "{}"}
    with programs.transaction() as connection:
        connection.execute(sa.insert(cat.sweeps).values(**row))
    file = tmp_path / "wanted.jsonl"
    file.write_text(json.dumps({"program": "a", "correct": True}))
    with pytest.raises(SuiteError, match="scores the programs of a gateway"):
        await score_programs("sweep:1", programs, ScoringRequest(file))


def test_verify_records_what_a_killed_gateway_left(catalog: storage.Catalog) -> None:
    """`verify` lists the programs first, then stores them as void, once."""
    call = CALL | {"attempt_id": "open", "call_id": "c", "sent_at": AT, "ended_at": AT}

    def complete(connection: sa.Connection) -> None:
        begin_program(connection, "open", CELL, "run", AT)

    storage.commit(catalog, {"calls": [call | {"sweep_id": SWEEP}]}, complete)
    (found,) = verify(catalog).findings
    assert (found.kind, found.path, found.repaired) == ("open", "open", "")
    with storage.held(catalog, SWEEP):
        assert verify(catalog, repair=True).findings == [], "its gateway runs"
    (found,) = verify(catalog, repair=True).findings
    assert found.repaired == "recorded as cancelled"
    sql = "select attempt_id, status, stop_reason, steps from attempts"
    assert [tuple(row.values()) for row in storage.query(sql, catalog.home)] == [
        ("open", "cancelled", "worker_lost", 1)
    ]
    assert verify(catalog, repair=True).findings == []
