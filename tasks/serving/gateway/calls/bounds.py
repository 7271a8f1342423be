"""Time limits on waits: how long a call is held, and how long an engine may be silent.

Checked every second.
"""

import asyncio
import time

from tutti.tasks.serving.gateway.calls.proxied_call import CallState, ProxiedCall
from tutti.tasks.serving.gateway.state import GatewayState
from tutti.tasks.serving.scheduling import ReasonCode

CHECKED_AT_ONCE = 256


async def check_all(gateway: GatewayState) -> None:
    """Check every call, a few at a time, so that thousands of held calls do not block the loop."""
    in_flight = list(gateway.in_flight.values())
    for start in range(0, len(in_flight), CHECKED_AT_ONCE):
        now = time.monotonic()
        for proxied in in_flight[start : start + CHECKED_AT_ONCE]:
            if proxied.state is CallState.OVER:
                continue
            try:
                check(proxied, gateway, now)
            except Exception as error:
                proxied.fail(error)
        await asyncio.sleep(0)


def check(proxied: ProxiedCall, gateway: GatewayState, now: float) -> None:
    """End a call that was held or unanswered for longer than its limit."""
    settings = gateway.settings
    if proxied.state is CallState.HELD:
        held = now - proxied.record.sent
        if held > settings.hold_s:
            gateway.count("held_too_long")
            proxied.refuse(
                503,
                f"held for {settings.hold_s:.0f} s without room; try again",
                [(b"Retry-After", b"5")],
                ReasonCode.HELD_TOO_LONG,
            )
        elif (
            proxied.request.stream
            and settings.comment_s
            and now - proxied.commented >= settings.comment_s
        ):
            proxied.comment(now, f"held by the gateway for {held:.0f} s")
    elif now - proxied.active_at > settings.upstream_s and not proxied.paused:
        assert proxied.endpoint is not None, "a sent call has an endpoint"
        proxied.endpoint.failed(now, "silence")
        gateway.endpoint_changed(proxied.endpoint)
        proxied.refuse(504, f"the engine was silent for {settings.upstream_s:.0f} s")
