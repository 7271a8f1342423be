"""Tests of failed attempts: those that are repeated, those that count as the model's, and cells
that are given up."""

import pytest

from tutti.tasks.agents import Trajectory
from tutti.tasks.serving import EngineFailed
from tutti.tasks.sweeps.run.failures import ALIKE_AT_MOST, Failures


def failed(status: int | None, kind: str = "connection") -> Trajectory:
    done = Trajectory(http_status=status)
    done.fail("infra_error", f"http_{status}" if status else kind, f"HTTP {status}: no")
    return done


def ended() -> Trajectory:
    return Trajectory(status="ok")


@pytest.mark.parametrize(
    ("status", "final"), [(401, True), (400, True), (503, False), (None, False)]
)
def test_what_would_fail_again_is_not_made_again(status: int | None, final: bool) -> None:
    assert Failures(answered=False).is_final(failed(status)) is final


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_rejection_is_void_until_another_request_was_answered(status: int) -> None:
    """A wrong field of the set-up rejects every request, which is not a wrong answer."""
    failures = Failures(answered=False)
    done = failed(status)
    failures.settle(done)
    assert done.status == "infra_error"
    failures.is_final(ended())
    failures.settle(done)
    assert (done.status, done.error_type) == ("model_error", f"http_{status}")


def test_other_failures_stay_infrastructure() -> None:
    failures = Failures(answered=True)
    for status in (401, 404, 429, 500, 503, None):
        done = failed(status)
        failures.settle(done)
        assert done.status == "infra_error"


def test_a_cell_is_given_up_after_so_many_that_fail_alike() -> None:
    """The message is that of the last failure; a dead endpoint is not called by every sample."""
    failures = Failures(answered=False)
    for _ in range(ALIKE_AT_MOST - 1):
        failures.is_final(failed(None))
    with pytest.raises(EngineFailed, match=r"first 8 attempts all failed .connection.*None: no"):
        failures.is_final(failed(None))


def test_what_is_to_be_corrected_is_named() -> None:
    """If a tool's server is unreachable, the message names it and not the model's entry."""
    failures = Failures(answered=False)
    done = failed(None, "tool_unavailable")
    with pytest.raises(EngineFailed, match="Correct the tool's server, then run"):
        for _ in range(ALIKE_AT_MOST):
            failures.is_final(done)


def test_it_is_not_given_up_where_they_differ_or_one_was_answered() -> None:
    failures = Failures(answered=False)
    differing = [failed(503 if nth % 2 else 500) for nth in range(4 * ALIKE_AT_MOST)]
    assert not any(failures.is_final(each) for each in differing)
    assert failures.is_final(ended())
    assert not any(failures.is_final(failed(None)) for _ in range(4 * ALIKE_AT_MOST))
