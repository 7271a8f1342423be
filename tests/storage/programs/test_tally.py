"""Tests of the clock of a gateway's attempt: one rule for all readers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tutti.storage import ProgramCell, ProgramClock, ProgramTally

AT = datetime(2026, 11, 24, tzinfo=UTC)
CALLS = [
    ("user", 0.0, 5.0, 1.0, "ok"),
    ("orchestrator", 5.0, 9.0, 2.0, "ok"),
    ("expert", 9.0, 12.0, 1.0, "ok"),
    ("orchestrator", 12.0, 20.0, 0.5, "infra_error"),
    ("orchestrator", 25.0, 27.0, 0.0, "ok"),
    ("judge", 27.0, 40.0, 3.0, "ok"),
]
"""Role, start, end, seconds held, status."""


def call(role: str, sent: float, ended: float, held_s: float, status: str) -> dict[str, Any]:
    """Return a row of `calls`."""
    times = {"sent_at": AT + timedelta(seconds=sent), "ended_at": AT + timedelta(seconds=ended)}
    tokens = {"prompt_tokens": None, "cached_tokens": None, "completion_tokens": None}
    row = {"role": role, "held_s": held_s, "status": status, "cost_usd": 0.0, "endpoint": "e"}
    return row | times | tokens


def test_working_time_leaves_out_waits_and_the_time_of_user_and_judge() -> None:
    """The agent was held for 2 s, its expert for 1 s, and 13 s were in vain; the partner took 18 s
    of the 40."""
    tally, clock = ProgramTally("a", ProgramCell("g", "m", "cap")), ProgramClock()
    for role, sent, ended, held_s, status in CALLS:
        tally.take(call(role, sent, ended, held_s, status))
        clock.take((sent, ended), held_s, status == "infra_error", role)
    row = tally.row("released", "run:1")
    assert (clock.held_s, clock.partner_s) == (16.0, 18.0)
    assert row["held_s"] == pytest.approx(clock.held_s)
    assert row["working_s"] == pytest.approx(40.0 - clock.held_s - clock.partner_s)
    assert (row["steps"], row["started_at"], row["ended_at"]) == (3, AT, AT + timedelta(seconds=40))
