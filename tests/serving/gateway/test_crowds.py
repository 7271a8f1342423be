"""Programs that are not released are bounded by number, not only by time.

Found by an attack: 200,000 of them took 228 MB and stalled the gateway for 1.1 s each round.
"""

from tests.serving.conftest import released
from tests.serving.gateway.conftest import MakeRaw
from tutti.tasks.serving.scheduling import EngineState, Policy, Scheduler, SchedulerLimits


async def test_the_longest_idle_goes_when_there_are_too_many(make_raw: MakeRaw) -> None:
    """One that runs or waits never does."""
    bench = await make_raw()
    (pool,) = bench.gateway.pools.by_name.values()
    pool.scheduler.limits = SchedulerLimits(programs=3)
    for name in ("a", "b", "c", "b", "d", "e"):
        assert (await bench.chat(name)).status == 200
    assert list(bench.programs) == ["b", "d", "e"]
    columns = "program_id, reason_code, reason"
    expired = await bench.rows(f"select {columns} from gateway_events where event='expire'")
    assert [row["program_id"] for row in expired] == ["a", "c"]
    assert {row["reason"] for row in expired} == {"too many programs"}
    assert {row["reason_code"] for row in expired} == {"crowded_out"}
    await released(bench.gateway)


def test_idle_programs_are_kept_in_order() -> None:
    """So that neither the oldest nor the expired are searched for among all."""
    scheduler = Scheduler(Policy(), SchedulerLimits(idle_lease_s=10.0, programs=2))
    scheduler.add_engine(EngineState("e"), 0.0)
    calls = {}
    for at, name in enumerate(("a", "b", "c")):
        calls[name], _ = scheduler.arrive(name, f"{name}1", 1, 1, float(at))
    assert scheduler.crowded_out() == []
    for at, name in ((3, "b"), (4, "a"), (5, "c")):
        scheduler.finish(calls[name], None, float(at))
    assert list(scheduler.ledger.idle) == ["b", "a", "c"] and scheduler.crowded_out() == ["b"]
    scheduler.arrive("b", "b2", 1, 1, 6.0)
    assert list(scheduler.ledger.idle) == ["a", "c"] and scheduler.crowded_out() == ["a"]
    assert scheduler.expired(14.5) == ["a"] and scheduler.expired(16.0) == ["a", "c"]
    scheduler.release("a", 7.0)
    assert list(scheduler.ledger.idle) == ["c"]
