"""Why a scheduler or a gateway decided as it did: a code to decide and count by, and its text."""

from enum import StrEnum
from typing import NamedTuple


class ReasonCode(StrEnum):
    """`gateway_events.reason_code`. The text says more, and is for people only."""

    # Held
    NO_ENGINE = "no_engine"
    """No engine accepts calls."""
    RATE_LIMIT = "rate_limit"
    """The rates of the endpoints are used up."""
    NO_ROOM = "no_room"
    """The engines' KV cache has no room for it."""
    NO_PLACE = "no_place"
    """As many programs are inside as may be."""
    QUEUED = "queued"
    """Others come first."""
    PAUSED = "paused"
    """Its program is paused."""
    ENGINE_FULL = "engine_full"
    """Its program's engine takes no more calls."""
    # Admitted, paused and resumed
    ADMITTED = "admitted"
    OTHERS_WAITED = "others_waited"
    """Another call has waited for too long."""
    OVER_CAPACITY = "over_capacity"
    """Contexts have outgrown the engine's cache."""
    IDLE = "idle"
    """The program was idle for longer than its cache is kept."""
    MARKED = "marked"
    """The program was marked to be paused at its next answer."""
    HAS_WAITED = "has_waited"
    """The program itself has waited for too long."""
    FITS = "fits"
    """There is room for the program again."""
    # Ended
    RELEASED = "released"
    LEASE_ENDED = "lease_ended"
    CROWDED_OUT = "crowded_out"
    HELD_TOO_LONG = "held_too_long"
    CLIENT_GONE = "client_gone"
    CELL_CHANGED = "cell_changed"
    STOPPING = "stopping"
    ENGINE_FAILED = "engine_failed"
    POLICY_FAILED = "policy_failed"
    GATEWAY_FAILED = "gateway_failed"
    ANSWERED = "answered"


class Reason(NamedTuple):
    """Why a decision was made."""

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
"""The events of held calls that end for these; all others are rejected."""
