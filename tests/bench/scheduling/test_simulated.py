"""Tests of the simulator against the bench's cells: fitted to one arm, it predicts the others."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from bench.scheduling.simulated import Predictor, policy_of, recording_of, slower
from tests.serving.simulation.driving import recorded
from tests.serving.simulation.workloads import SMALL, SMALL_WORK, constant
from tutti.tasks.serving.simulation import SimulationError

COLUMNS = (
    "program", "step", "intended_s", "sent_s", "ended_s", "tool_end_s", "status", "tries",
    "prompt_tokens", "cached_tokens", "completion_tokens", "reusable_tokens",
)  # fmt: skip
WORK = replace(SMALL_WORK, turns=constant(5))


@dataclass
class Record:
    """Record in the bench's format, filled by the simulator."""

    spec: dict[str, Any]
    measures: dict[str, float]
    columns: tuple[str, ...]
    steps: list[list[float]]
    cut: bool = False


def cell(arm: str, load: float, times: float = 1.0, block: int = 0, hop_s: float = 0.0) -> Record:
    """Return a cell on a machine that takes `times` times as long."""
    sessions = round(16 * load)
    engine = slower(SMALL, times)
    work, policy = replace(WORK, programs=sessions), policy_of(arm) or arm
    run = recorded(work, sessions, engine, policy, hop_s=hop_s)
    steps: list[list[float]] = []
    for name, calls in run.programs().items():
        context = 0
        for nth, call in enumerate(calls):
            after = calls[nth + 1].sent_s if nth + 1 < len(calls) else call.ended_s
            at = [call.sent_s, call.sent_s, call.ended_s, after, 200, 1]
            sizes = [call.prompt, call.cached, call.output, context]
            steps.append([int(name[1:]), nth, *at, *sizes])
            context = call.prompt + call.output
    spec = {"setup": "small", "shape": "append", "load": load, "block": block, "arm": arm}
    rate = run.measured().steps_per_min
    return Record(spec | {"sessions": sessions}, {"steps_per_min": rate}, COLUMNS, steps)


def test_arms_are_predicted_in_their_order() -> None:
    """The model is fitted to the direct arm with all programs at once and with three times the
    number that fits; the second block is twice as slow."""
    cells = [cell("direct", 1.0), cell("direct", 3.0), cell("direct", 3.0, 2.0, 5)]
    caps = [cell(arm, 3.0, *of) for arm in ("cap-8", "cap-16") for of in ((1.0, 0), (2.0, 5))]
    predictor = Predictor(cells + caps)
    rates = [(predictor(each.spec, each), each.measures["steps_per_min"]) for each in caps]
    assert all(said is not None and abs(said / was - 1) < 0.15 for said, was in rates)
    assert sorted(rates, key=lambda rate: rate[0] or 0.0) == sorted(rates, key=lambda r: r[1])


def test_what_the_gateway_adds_is_fitted_to_the_arm_that_only_passes_through() -> None:
    """The arm `passthrough` is then not predicted."""
    direct, through = cell("direct", 1.0), cell("passthrough", 1.0, hop_s=0.08)
    predictor = Predictor([direct, through])
    assert predictor.hop_s >= 0.04
    assert predictor(through.spec, through) is None
    assert Predictor([direct])(through.spec, through) is not None


def test_what_cannot_be_predicted_is_left_out() -> None:
    """The arm used for fitting, arms that are not our policies and cells that were cut are left
    out."""
    fitted = cell("direct", 1.0)
    predictor = Predictor([fitted])
    other = replace(fitted, spec=fitted.spec | {"arm": "vllm-router"})
    cut = replace(fitted, spec=fitted.spec | {"arm": "cap-8"}, cut=True)
    unknown = replace(fitted, spec=fitted.spec | {"arm": "cap-8", "setup": "mid"})
    for record in (fitted, other, cut, unknown):
        assert predictor(record.spec, record) is None
    with pytest.raises(SimulationError, match="no step was answered"):
        recording_of(replace(fitted, steps=[]))


def test_arms_have_their_policies() -> None:
    """The arms of peers have the corresponding policies."""
    assert policy_of("direct") == "passthrough"
    assert policy_of("cap-12") == "cap:12"
    assert policy_of("ThunderAgent-0.5s") == "thunderagent:interval_s=0.5"
    assert policy_of("adaptive") == "adaptive"
    assert policy_of("vllm-router") is None
