"""Tests that probes are cells of their suite: the same policy with its options, id and name."""

from tests.sweeps.conftest import config_of, make_tasks
from tutti.tasks.sweeps.plan.plan import Cell, plan_of
from tutti.tasks.sweeps.search.search import probe_suite
from tutti.tasks.sweeps.spec.policy import Policy
from tutti.tasks.sweeps.spec.suite import Suite

SET_UP = config_of(make_tasks(40))


def probed(suite: Suite, policy: str) -> Cell:
    """Return the cell of a probe of the policy at 2."""
    (cell,) = plan_of(probe_suite(suite, policy, 2, 1, 1.0), SET_UP, whole=suite).cells
    return cell


def test_a_probe_is_the_suites_own_cell() -> None:
    """This holds for policies with and without options, and if the suite has one twice with
    different options."""
    caps = (Policy(name="cap", limit=4), Policy(name="cap", limit=6))
    for policies in (("passthrough", "cap"), ("passthrough", caps[0]), ("adaptive", *caps)):
        suite = Suite(policies=policies, concurrency=(2,))
        own = {cell.policy: cell.cell_id for cell in plan_of(suite, SET_UP).cells}
        found = {each: probed(suite, each) for each in suite.each_policy}
        assert {label: cell.cell_id for label, cell in found.items()} == own
        assert {label: cell.policy for label, cell in found.items()} == {each: each for each in own}


def test_a_probe_has_samples_for_each_session_and_ends_early() -> None:
    """The number of samples is raised if the suite has fewer; the suite's own stop conditions are
    dropped."""
    suite = Suite(
        concurrency=(2,), stopping={"stop_when_decided": {}}, repetition={"repeat_baseline": True}
    )
    probe = probe_suite(suite, "cap", 20, 3, 1.5)
    assert probe.concurrency == (20,) and probe.repetition.repeats == 3
    assert probe.repetition.min_samples_per_session == 4 and not probe.repetition.repeat_baseline
    assert probe.stopping.saturation is not None and probe.stopping.stop_when_decided is None
    assert probe.stopping.saturation.step_latency_p95 == 1.5
