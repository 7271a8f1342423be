"""Tests of retries: limits by error class, jitter and a deadline."""

from random import Random

import pytest

from tutti.tasks.agents.models.client import CONNECTION, RETRY, Retry
from tutti.tasks.agents.models.model import ModelCallFailed, retried
from tutti.tasks.serving.wire import asked_pause_s


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 422, 507])
def test_what_does_not_pass_is_not_tried_again(status: int) -> None:
    """An invalid request is not retried."""
    assert RETRY.pause_s(status, 1, None, 0.0, Random(0)) is None


@pytest.mark.parametrize(
    ("status", "tries"), [(CONNECTION, 3), (429, 6), (500, 2), (502, 3), (503, 4), (529, 4)]
)
def test_each_class_has_its_limit(status: int, tries: int) -> None:
    """Pauses grow up to a limit."""
    pauses = [RETRY.pause_s(status, failed, None, 0.0, Random(failed)) for failed in range(1, 9)]
    assert [pause is not None for pause in pauses] == [failed < tries for failed in range(1, 9)]
    known = [pause for pause in pauses if pause is not None]
    assert all(0.25 <= pause <= 8.0 for pause in known)


def test_a_servers_wish_is_kept_but_not_beyond_the_deadline() -> None:
    """A requested pause of an hour is not waited for."""
    assert RETRY.pause_s(429, 1, 30.0, 0.0, Random(0)) == 30.0
    assert RETRY.pause_s(429, 1, 3600.0, 0.0, Random(0)) is None
    assert Retry({429: 9}, deadline_s=10.0).pause_s(429, 1, None, 10.0, Random(0)) is None


def test_pauses_are_drawn_and_the_same_again() -> None:
    """Jitter is seeded by the program: different programs spread, and repeated runs are
    identical."""
    drawn = [RETRY.pause_s(503, 1, None, 0.0, Random(seed)) for seed in range(5)]
    assert len(set(drawn)) == 5
    assert drawn == [RETRY.pause_s(503, 1, None, 0.0, Random(seed)) for seed in range(5)]


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        (None, None),
        ("soon", None),
        ("-1", None),
        ("nan", None),
        ("999999999999", 999999999999.0),
        ("Wed, 21 Oct 2020 07:28:00 GMT", 0.0),
        ("Mon, 01 Jan 99999999999999999 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_read(header: str | None, pause: float | None) -> None:
    """A date in the past gives a pause of 0, and an invalid date gives none."""
    assert asked_pause_s(header) == pause


@pytest.mark.parametrize("tries", [1, 2, 3])
async def test_whoever_calls_hears_of_each_failed_try(tries: int) -> None:
    """The callback gets each failure with the pause before the next try, and without one after the
    last."""
    heard: list[tuple[str, bool]] = []
    failures = iter([ModelCallFailed("first", 503), ModelCallFailed("second", 503)])

    async def one_try() -> str:
        for failure in failures:
            raise failure
        return "answer"

    def hear(failure: ModelCallFailed, pause_s: float | None) -> None:
        heard.append((str(failure), pause_s is not None))

    call = retried(one_try, Retry({503: tries}), Random(0), hear)
    if tries == 3:
        assert await call == "answer"
    else:
        with pytest.raises(ModelCallFailed, match="first" if tries == 1 else "second"):
            await call
    assert heard == [("first", tries > 1), ("second", tries > 2)][:tries]
