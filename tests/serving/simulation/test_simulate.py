"""Tests of programs under real policies: everything ends once, nothing stays booked, and a seed
determines a run."""

from dataclasses import replace

import pytest

from tests.serving.simulation.workloads import (
    MID,
    MID_WORK,
    POCKET,
    POCKET_WORK,
    SMALL,
    SMALL_WORK,
    Workload,
    constant,
    pareto,
    simulate_work,
    uniform,
)
from tutti.tasks.serving.scheduling import Call, EngineMetrics, Policy, make_policy
from tutti.tasks.serving.simulation import EngineModel, SimulationError
from tutti.tasks.serving.simulation.outcome import Outcome
from tutti.tasks.serving.simulation.workload import parse_policy

FEW = replace(SMALL_WORK, programs=24, turns=constant(4))


def run(
    work: Workload, sessions: int | None, policy: str, seed: int = 0, engines: int = 1
) -> Outcome:
    return simulate_work(work, sessions, [SMALL] * engines, parse_policy(policy), seed)


@pytest.mark.parametrize("policy", ["passthrough", "cap:6", "adaptive"])
def test_every_call_ends_once_and_a_seed_is_a_run(policy: str) -> None:
    one, again, other = (run(FEW, 12, policy, seed) for seed in (0, 0, 1))
    assert one == again
    assert one.step_ends != other.step_ends
    assert (one.programs, one.steps) == (24, 96)
    assert one.steps_per_min > 0


def test_the_same_seed_is_the_same_work_under_another_policy() -> None:
    assert FEW.plans(3) == FEW.plans(3) != FEW.plans(4)
    assert replace(FEW, programs=30).plans(3)[:24] == FEW.plans(3)


def test_a_cap_holds_programs_and_its_wait_is_in_the_latency() -> None:
    held = run(FEW, 12, "cap:2")
    assert held.latency_max_s >= held.held_max_s > 0
    assert held.hit_share > run(FEW, 24, "passthrough").hit_share - 0.02


def test_a_gate_that_keeps_the_engine_idle_is_seen() -> None:
    assert run(FEW, 4, "cap:1").idle_with_queue_share > 0.25
    assert run(FEW, 4, "passthrough").idle_with_queue_share == 0


def test_programs_arrive_by_themselves_in_an_open_loop() -> None:
    work = replace(FEW, arrivals_per_s=20.0)
    outcome = run(work, None, "passthrough", engines=2)
    assert outcome.programs == 24
    assert outcome.makespan_s > work.plans(0)[-1].arrives_s


def test_programs_that_never_say_they_are_over_block_a_cap_until_their_lease() -> None:
    slow = run(replace(FEW, programs=4, released=False), 4, "cap:2")
    assert slow.makespan_s > 1800


def test_a_call_that_fits_no_engine_is_told_before_the_run() -> None:
    work = replace(FEW, first_tokens=constant(40_000))
    with pytest.raises(SimulationError, match="program p0, call 0: 40000 \\+ 24 tokens"):
        run(work, 2, "passthrough")


def test_a_policy_that_admits_nobody_is_told() -> None:

    class Never(Policy):
        name = "never"

        def admit(self, now: float) -> list[tuple[Call, object]]:  # type: ignore[override]
            return []

    with pytest.raises(SimulationError, match="policy never: no answer since 0 s, 2 calls held"):
        simulate_work(replace(FEW, programs=2), 2, [SMALL], Never())


def test_a_policy_is_ticked_woken_and_shown_the_engines_as_in_the_gateway() -> None:
    seen: dict[str, list[float]] = {"tick": [], "sample": [], "first": []}

    class Watching(Policy):
        tick_s = 0.5

        def ticked(self, now: float) -> None:
            seen["tick"].append(now)

        def wake_at(self, now: float) -> float | None:
            return 0.7 if now < 0.7 else None

        def observed(self, engine: object, sample: EngineMetrics, now: float) -> None:
            seen["sample"].append(now)
            assert 0.0 <= (sample.kv_usage or 0.0) <= 1.0

        def first_token(self, call: Call, now: float) -> None:
            seen["first"].append(now)

    simulate_work(replace(FEW, streams=True), 8, [SMALL], Watching())
    assert seen["tick"][:3] == [0.5, 0.7, 1.0]
    assert seen["sample"][:2] == [1.0, 2.0]
    assert len(seen["first"]) == 96
    seen["first"].clear()
    simulate_work(replace(FEW, streams=False), 8, [SMALL], Watching())
    assert not seen["first"]


def test_ten_thousand_programs_on_sixty_four_engines() -> None:
    work = replace(
        SMALL_WORK, programs=10_000, turns=constant(2), first_tokens=uniform(200, 800),
        output_tokens=constant(8), tool_s=pareto(0.02, 1.5),
    )  # fmt: skip
    outcome = run(work, 64 * 32, "cap:1024", engines=64)
    assert (outcome.programs, outcome.steps) == (10_000, 20_000)


MEASURED = [
    ("passthrough", 8, 32, 2361, 0.83),
    ("passthrough", 16, 32, 3626, 0.83),
    ("passthrough", 48, 72, 1888, 0.17),
    ("cap:12", 48, 72, 3004, 0.83),
    ("cap:16", 48, 72, 3594, 0.83),
    ("cap:20", 48, 72, 2600, 0.62),
]


@pytest.mark.parametrize(("policy", "sessions", "programs", "rate", "hit"), MEASURED)
def test_the_small_preset_is_as_measured(
    policy: str, sessions: int, programs: int, rate: float, hit: float
) -> None:
    work = replace(SMALL_WORK, programs=programs)
    outcome = simulate_work(work, sessions, [SMALL], parse_policy(policy))
    assert outcome.steps_per_min == pytest.approx(rate, rel=0.1)
    assert outcome.hit_share == pytest.approx(hit, abs=0.08)


@pytest.mark.parametrize(
    ("policy", "rate", "hit"),
    [("passthrough", 60, 0.05), ("cap:6", 95, 0.70), ("cap:8", 104, 0.61)],
)
def test_the_mid_preset_is_as_measured(policy: str, rate: float, hit: float) -> None:
    outcome = simulate_work(MID_WORK, 20, [MID], parse_policy(policy))
    assert outcome.steps_per_min_all == pytest.approx(rate, rel=0.15)
    assert outcome.hit_share == pytest.approx(hit, abs=0.08)


def test_the_pocket_preset_keeps_the_shape() -> None:
    runs = [simulate_work(POCKET_WORK, n, [POCKET], make_policy("passthrough")) for n in (2, 8, 16)]
    rates, hits = [r.steps_per_min_all for r in runs], [r.hit_share for r in runs]
    assert rates == sorted(rates)
    assert hits == sorted(hits, reverse=True)


def test_engines_of_two_sizes_are_both_used() -> None:
    tiny = EngineModel("tiny", kv_tokens=4_096)
    outcome = simulate_work(FEW, 8, [SMALL, tiny], Policy())
    assert outcome.steps == 96
