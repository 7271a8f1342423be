"""Plan files and policies on a command line: how they are read, and the errors of invalid ones."""

from pathlib import Path

import pytest

from tutti.tasks.serving.simulation.plan import SMALL, SMALL_WORK, read_plan
from tutti.tasks.serving.simulation.workload import (
    Dist,
    PlanError,
    SimulationError,
    Workload,
    constant,
    lognormal,
    parse_policy,
    read_dist,
)

PLAN = """
preset: small
engines: 2
sessions: 8
kv_tokens: 16384
policies: [passthrough, "cap:4"]
workload:
  programs: 10
  turns: 3
  tool_s: {lognormal: {median: 0.05, sigma: 1.0}}
"""


def write(tmp_path: Path, text: str) -> Path:
    """A plan file."""
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def test_a_plan_changes_a_preset_and_runs(tmp_path: Path) -> None:
    """What it does not name stays the preset's."""
    plan = read_plan(write(tmp_path, PLAN))
    work = plan.load()
    assert (work.programs, work.turns, work.first_tokens) == (10, constant(3), constant(400))
    assert work.tool_s == lognormal(0.05, 1.0)
    assert plan.model().kv_tokens == 16_384
    assert plan.model().iteration_s == SMALL.iteration_s
    outcome = plan.run("cap:4")
    assert (outcome.programs, outcome.steps) == (10, 30)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("sessions: 8", "sessions: 0", "sessions: .*(given: 0)"),
        ("preset: small", "preset: smal", "preset: .*known: small, mid, pocket"),
        ("cap:4", "cup:4", "no policy 'cup' in 'cup:4'"),
        ("turns: 3", "turn: 3", "workload.turn: Extra inputs"),
        ("lognormal", "normal", "workload.tool_s: .*no distribution 'normal'"),
        ("sigma", "sigm", "lognormal takes median and sigma"),
        ("median: 0.05", "median: 0", "lognormal: median must be at least"),
        ("engines: 2", "engine: {speed: 2}", "engine.speed: no such constant"),
        ("engines: 2", "engine: none.json", "none.json"),
        ("sessions: 8", "seed: 1", "sessions: must be given"),
        ("preset: small", "preset: [", "not YAML"),
    ],
)
def test_a_wrong_plan_is_told_by_field_and_value(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    """In one line."""
    with pytest.raises(SimulationError, match=told) as caught:
        read_plan(write(tmp_path, PLAN.replace(old, new))).run("cap:4")
    assert "\n" not in str(caught.value)


def test_a_plan_that_is_not_there_is_told(tmp_path: Path) -> None:
    """By its path."""
    with pytest.raises(PlanError, match=r"no\.yaml: no such file"):
        read_plan(tmp_path / "no.yaml")


@pytest.mark.parametrize("value", [True, "many", [1], {"uniform": 3}, {"constant": {"value": "x"}}])
def test_what_is_no_distribution_is_refused(value: object) -> None:
    """With what would be one."""
    with pytest.raises(ValueError):
        read_dist(value)


def test_distributions_have_the_means_they_say() -> None:
    """Drawn from a seed."""
    from random import Random

    rng = Random(0)
    cases = [
        (Dist("constant", 3.0), 3.0),
        (Dist("uniform", 1.0, 3.0), 2.0),
        (Dist("exponential", 2.0), 2.0),
        (Dist("lognormal", 1.0, 0.5), 1.133),
        (Dist("pareto", 1.0, 3.0), 1.5),
    ]
    for dist, mean in cases:
        drawn = [dist.draw(rng) for _ in range(20_000)]
        assert sum(drawn) / len(drawn) == pytest.approx(mean, rel=0.03)


def test_a_workload_refuses_what_makes_no_sense() -> None:
    """With the field and the value."""
    sizes = (constant(1),) * 5
    for field, value in [("programs", 0), ("shape", "odd"), ("disconnect_p", 2.0)]:
        given = {"programs": 1} | {field: value}
        programs = given.pop("programs")
        with pytest.raises(ValueError, match=field):
            Workload(programs, *sizes, **given)  # type: ignore[arg-type]


def test_programs_end_before_a_context_that_is_too_long() -> None:
    """And rebuilt prompts keep what they are told to."""
    from dataclasses import replace

    short = replace(SMALL_WORK, programs=1, max_context=1000, shape="rebuilt", kept_tokens=100)
    (plan,) = short.plans(0)
    assert [turn.prompt for turn in plan.turns] == [400, 600, 800]
    assert [turn.kept for turn in plan.turns] == [0, 100, 100]


def test_a_policy_is_a_word_with_its_options() -> None:
    """By name, or the first one."""
    assert parse_policy("cap:8").limit == 8  # type: ignore[attr-defined]
    assert parse_policy("cap:limit=3").limit == 3  # type: ignore[attr-defined]
    assert parse_policy("passthrough").name == "passthrough"
    for wrong in ("cap:0", "cap:x", "cap:size=3", "passthrough:3", "nobody"):
        with pytest.raises(SimulationError, match=wrong):
            parse_policy(wrong)
