"""Every wait has a bound: holds, and the silence of an engine. Looked at every second."""

import asyncio
import time
from typing import TYPE_CHECKING

from tutti.tasks.serving.gateway.passage import Passage, State
from tutti.tasks.serving.scheduling import ReasonCode

if TYPE_CHECKING:
    from tutti.tasks.serving.gateway.app import Gateway


CHECKED_AT_ONCE = 256


async def check_all(gateway: "Gateway") -> None:
    """Check every call; a few at a time, for thousands may be held, and others want to be heard."""
    passages = list(gateway.passages.values())
    for start in range(0, len(passages), CHECKED_AT_ONCE):
        now = time.monotonic()
        for passage in passages[start : start + CHECKED_AT_ONCE]:
            if passage.state is not State.OVER:
                try:
                    check(passage, gateway, now)
                except Exception as error:
                    passage.fail(error)
        await asyncio.sleep(0)


def check(passage: Passage, gateway: "Gateway", now: float) -> None:
    """End a call that was held, or is unanswered, for longer than it may be."""
    settings = gateway.settings
    if passage.state is State.HELD:
        held = now - passage.record.sent
        if held > settings.hold_s:
            gateway.count("held_too_long")
            passage.refuse(
                503,
                f"held for {settings.hold_s:.0f} s without room; try again",
                [(b"Retry-After", b"5")],
                ReasonCode.HELD_TOO_LONG,
            )
        elif (
            passage.asked.stream
            and settings.comment_s
            and now - passage.commented >= settings.comment_s
        ):
            passage.comment(now, f"held by the gateway for {held:.0f} s")
    elif now - passage.active_at > settings.upstream_s and not passage.paused:
        assert passage.endpoint is not None, "a call that was sent has an endpoint"
        passage.endpoint.failed(now, "silence")
        gateway.endpoint_changed(passage.endpoint)
        passage.refuse(504, f"the engine was silent for {settings.upstream_s:.0f} s")
