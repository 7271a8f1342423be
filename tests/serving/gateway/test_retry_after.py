"""The pause that an engine may ask for."""

import pytest

from tutti.tasks.serving.gateway.endpoint import ASK_AGAIN_S, LONGEST_PAUSE_S, retry_after_s


@pytest.mark.parametrize(
    ("value", "pause_s"),
    [
        (b"0.2", 0.2),
        (b"300", LONGEST_PAUSE_S),
        (b"301", ASK_AGAIN_S),
        (b"999999999999", ASK_AGAIN_S),
        (b"inf", ASK_AGAIN_S),
        (b"nan", None),
        (b"-1", None),
        (b"Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_a_pause_is_kept_up_to_a_bound(value: bytes, pause_s: float | None) -> None:
    """Beyond it the endpoint is asked again after a minute; before, it was paused for 600 s."""
    assert retry_after_s([(b"Retry-After", value)]) == pause_s
