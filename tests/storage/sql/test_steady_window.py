"""Tests of the steady window's start against MSER computed here."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pytest

from tutti import storage

BEGAN = datetime(2026, 11, 21, tzinfo=UTC)
BATCHES = 40
SPAN_S = 400.0
Level = Callable[[float], float]
"""Seconds since the start to a figure."""


def after(seconds: float) -> datetime:
    """Return the time `seconds` after the first request."""
    return BEGAN + timedelta(microseconds=round(seconds * 1e6))


def rows_of(
    cell: str, per_s: Level, kv: Level | None, seed: int = 1, **changes: Any
) -> dict[str, list[dict[str, Any]]]:
    """Return rows of two slots, busy for SPAN_S, with steps at a rate and the KV use once a
    second."""
    key = {"cell_id": cell, "sweep_id": "s"}
    rng, at, rows = Random(seed), 0.0, dict[str, list[dict[str, Any]]](attempts=[], calls=[])
    for nth, start in enumerate([0.0, 0.0, *np.linspace(1, SPAN_S, 40)]):
        spans = {"started_at": after(start), "ended_at": after(start + 5)}
        names = {"attempt_id": f"{cell}-{nth}", "concurrency": 2, "status": "ok"}
        rows["attempts"].append(key | names | spans | changes)
    while at < SPAN_S + 10:
        call = {"attempt_id": f"{cell}-0", "call_id": f"{cell}-{at}", "step": len(rows["calls"])}
        call |= {"sent_at": after(max(0.0, at - 0.1)), "ended_at": after(at)}
        rows["calls"].append(key | call | {"role": "orchestrator", "status": "ok"})
        at += rng.uniform(0.5, 1.5) / per_s(at)
    rows["calls"][0]["sent_at"] = BEGAN
    sample = key | {"engine_id": "e", "name": "vllm:kv_cache_usage_perc"}
    rows["server_metrics"] = [
        sample | {"at": after(second + 0.5), "value": kv(second) + rng.uniform(0, 0.02)}
        for second in range(int(SPAN_S))
        if kv is not None
    ]
    return rows


def mser(y: Sequence[float]) -> int:
    """Return the first batch kept by White's rule, as in the paper, for the first half, or 0 if the
    cut reduces the error by less than a fifth."""
    tails = [np.array(y[d:]) for d in range(len(y) // 2 + 1)]
    errors = [((t - t.mean()) ** 2).sum() / len(t) ** 2 for t in tails]
    return int(np.argmin(errors)) if min(errors) <= 0.8 * errors[0] else 0


def steady(home: storage.Home, cell: str = "c") -> tuple[Any, Any, str]:
    """Return start, end and reason."""
    sql = f"select start_s, end_s, reason from steady_window('{cell}')"
    (row,) = storage.query(sql, home)
    return row["start_s"], row["end_s"], row["reason"]


def flat(_: float) -> float:
    """Return a constant that is used for a steady figure: about four steps per second, or half of
    the cache."""
    return 4.0


def half(_: float) -> float:
    """Return half of the cache."""
    return 0.5


@pytest.mark.parametrize("seed", range(5))
def test_the_cut_is_white_s(catalog: storage.Catalog, seed: int) -> None:
    """For steps alone with a slow start of 60 s, the macro and the formula agree on the batch."""
    rows = rows_of("c", lambda s: 4.0 if s > 60 else 1.0, None, seed)
    storage.commit(catalog, rows)
    ends = [(row["ended_at"] - BEGAN).total_seconds() for row in rows["calls"]]
    counts, _ = np.histogram([s for s in ends if s < SPAN_S], bins=BATCHES, range=(0, SPAN_S))
    start_s, end_s, reason = steady(catalog.home)
    assert start_s == pytest.approx(mser(list(counts)) * SPAN_S / BATCHES)
    assert 60 <= start_s < 200 and end_s == pytest.approx(SPAN_S)
    cut = f"its first {start_s:.1f} s cut by MSER on steps"
    assert reason == f"all session slots busy; {cut}"


def test_the_later_of_both_counts(catalog: storage.Catalog) -> None:
    """Steps settle after 20 s, the cache fills for 100 s."""
    rows = rows_of("c", lambda s: 4.0 if s > 20 else 1.0, lambda s: min(s, 100) / 200)
    storage.commit(catalog, rows)
    start_s, _, reason = steady(catalog.home)
    assert 90 <= start_s < 200
    assert reason.endswith("cut by MSER on steps and KV use")


def test_no_steady_state_keeps_the_busy_span_and_says_so(catalog: storage.Catalog) -> None:
    """A cache that fills until the end never settles."""
    storage.commit(catalog, rows_of("c", flat, lambda s: s / 500))
    found = steady(catalog.home)
    assert found == (0, SPAN_S, "all session slots busy; no steady state by MSER on KV use")


def test_what_is_steady_stays_whole(catalog: storage.Catalog) -> None:
    """Noise alone does not move the start, because the error must fall by a fifth."""
    storage.commit(catalog, rows_of("c", flat, half))
    found = steady(catalog.home)
    assert found == (0, SPAN_S, "all session slots busy; nothing cut by MSER on steps and KV use")


def test_few_steps_are_not_asked(catalog: storage.Catalog) -> None:
    """With fewer than five steps per batch, the counts are random."""
    storage.commit(catalog, rows_of("c", lambda s: 0.4 if s > 60 else 0.1, None))
    assert steady(catalog.home) == (0, SPAN_S, "all session slots busy")


def test_unknown_load_has_no_window(catalog: storage.Catalog) -> None:
    """The window used to start at second 0."""
    storage.commit(catalog, rows_of("c", flat, half, concurrency=None))
    assert steady(catalog.home) == (None, None, "it is not known how many sessions ran at once")


def test_an_open_loop_is_called_one(catalog: storage.Catalog) -> None:
    """Sessions of an open loop have due times, and its slots are not kept busy."""
    storage.commit(catalog, rows_of("c", flat, half, due_at=BEGAN))
    assert steady(catalog.home)[2].startswith("as many sessions arrived as asked for; ")


def test_many_cells_at_once(catalog: storage.Catalog) -> None:
    """Used laterally, each cell has its own window."""
    for nth, until in enumerate((0, 40, 90)):
        rows = rows_of(f"c{nth}", lambda s, u=until: 4.0 if s > u else 1.0, half, seed=nth)  # type: ignore[misc]
        storage.commit(catalog, rows)
    sql = "select c.id, w.* from (select unnest(['c0', 'c1', 'c2']) as id) c, steady_window(c.id) w"
    together = {row["id"]: tuple(row.values())[1:] for row in storage.query(sql, catalog.home)}
    assert together == {f"c{nth}": steady(catalog.home, f"c{nth}") for nth in range(3)}
    assert together["c2"][0] >= 90


def session_rows(starts: Sequence[float], lasting_s: float, slots: int) -> dict[str, Any]:
    """Return attempts that start at `starts`, each with one call, and take `lasting_s`."""
    rows = dict[str, Any](attempts=[], calls=[])
    for nth, start in enumerate(starts):
        key = {"cell_id": "c", "sweep_id": "s", "attempt_id": f"a{nth}", "status": "ok"}
        spans = {"started_at": after(start), "ended_at": after(start + lasting_s)}
        rows["attempts"].append(key | spans | {"concurrency": slots})
        call = {"call_id": f"c{nth}", "step": 1, "role": "orchestrator", "sent_at": after(start)}
        rows["calls"].append(key | call | {"ended_at": after(start + lasting_s)})
    return rows


def test_the_window_of_a_ramp_begins_at_its_end(catalog: storage.Catalog) -> None:
    """The window does not begin with the n-th start, because early sessions are at their second or
    third sample."""
    starts = sorted(second + 1.0 * turn for second in range(8) for turn in range(30 - second))
    storage.commit(catalog, session_rows(starts, 1.0, 8))
    start_s, _, reason = steady(catalog.home)
    assert start_s >= 6.9 and reason.startswith("all session slots busy")


def test_no_window_lies_across_a_pause(catalog: storage.Catalog) -> None:
    """The longer stretch is used; no rate includes the pause."""
    starts = [turn + slot * 0.01 for turn in range(5) for slot in range(2)]
    starts += [100 + turn + slot * 0.01 for turn in range(20) for slot in range(2)]
    rows = session_rows(starts, 0.99, 2)
    pause = {"cell_id": "c", "sweep_id": "s", "engine_id": "client", "name": "client:paused"}
    rows["server_metrics"] = [pause | {"at": after(6.0), "value": 1.0}]
    storage.commit(catalog, rows)
    start_s, end_s, reason = steady(catalog.home)
    assert (start_s, end_s) == pytest.approx((100.01, 119.01), abs=0.02)
    assert reason == "all session slots busy, in the longest of its stretches"
