"""Reasons of decisions by the scheduler and the gateway: a code for programs and a text for
people."""

from enum import StrEnum
from typing import NamedTuple


class ReasonCode(StrEnum):
    """`gateway_events.reason_code`. The text has details and is for people only."""

    # Held
    NO_ENGINE = "no_engine"
    RATE_LIMIT = "rate_limit"
    NO_ROOM = "no_room"
    NO_PLACE = "no_place"
    QUEUED = "queued"
    PAUSED = "paused"
    ENGINE_FULL = "engine_full"
    # Admitted, paused and resumed
    ADMITTED = "admitted"
    OTHERS_WAITED = "others_waited"
    OVER_CAPACITY = "over_capacity"
    IDLE = "idle"
    """The program was idle for longer than its cache is kept."""
    MARKED = "marked"
    HAS_WAITED = "has_waited"
    FITS = "fits"
    # Ended
    RELEASED = "released"
    LEASE_ENDED = "lease_ended"
    CROWDED_OUT = "crowded_out"
    HELD_TOO_LONG = "held_too_long"
    CLIENT_GONE = "client_gone"
    CELL_CHANGED = "cell_changed"
    STOPPING = "stopping"
    ENGINE_FAILED = "engine_failed"
    NO_METRICS = "no_metrics"
    """An engine has no usable metrics, so its calls are scheduled by count."""
    UNKNOWN_COST = "unknown_cost"
    POLICY_FAILED = "policy_failed"
    GATEWAY_FAILED = "gateway_failed"
    ANSWERED = "answered"


class Reason(NamedTuple):
    """Reason of a decision."""

    code: ReasonCode
    text: str


NO_ENGINE = Reason(ReasonCode.NO_ENGINE, "no engine accepts calls")
OTHERS_WAITED = Reason(ReasonCode.OTHERS_WAITED, "others have waited for too long")
OUTGROWN = Reason(ReasonCode.OVER_CAPACITY, "contexts have outgrown the cache")
HAS_WAITED = Reason(ReasonCode.HAS_WAITED, "it has waited for too long")
RELEASED = Reason(ReasonCode.RELEASED, "release")
LEASE_ENDED = Reason(ReasonCode.LEASE_ENDED, "idle lease ended")
CROWDED_OUT = Reason(ReasonCode.CROWDED_OUT, "too many programs")
CLIENT_GONE = Reason(ReasonCode.CLIENT_GONE, "client went away")
WITHDRAWN = {ReasonCode.HELD_TOO_LONG: "expire", ReasonCode.CLIENT_GONE: "disconnect"}
"""Reasons for which the end of a held call is logged as withdrawn; all others are logged as
rejected."""
