"""`adaptive`'s account of one engine: the programs with a place there, and their demand."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from tutti.tasks.serving.scheduling.forecast import HORIZON
from tutti.tasks.serving.scheduling.ledger import EngineState, Program

LEVEL_START, LEVEL_LEAST, LEVEL_MOST = 0.9, 0.7, 0.95
FIRST_CALLS = 8  # of programs; the least that they found is taken for shared by all
PACE = 64  # calls
LOOKS = 32  # ends of calls
LEVEL_UP, LEVEL_DOWN = 0.01, 0.97


@dataclass(slots=True, eq=False)
class Place:
    """A program's place on an engine: its context stays booked there between calls."""

    program: Program
    account: "Account"
    since: float
    profile: list[float] = field(default_factory=lambda: [0.0] * len(HORIZON))
    tokens: int = 0
    """Tokens held, in whole blocks, including what running calls will add."""
    kept: bool = False
    """Whether it has been held continuously since the program's last call, so that its prefix
    should be found in the cache."""
    calls: int = 0


class Account:
    """The places on one engine and the KV tokens booked for them."""

    def __init__(self, engine: EngineState) -> None:
        self.engine = engine
        self.places: dict[str, Place] = {}
        self.idle: OrderedDict[str, Place] = OrderedDict()
        """Places whose program has no running call, longest idle first."""
        self.demand = [0.0] * len(HORIZON)
        """Expected tokens at each horizon, except for the places in `stale`."""
        self.stale: dict[str, Place] = {}
        """Places whose forecast must be recomputed before it is read; few decisions read it."""
        self.held_tokens = 0
        self.level = LEVEL_START
        """The share of the cache that is given out; adapted to the engine's metrics."""
        self.lingering_tokens = 0.0
        """Tokens that ended programs left in the cache since idle programs were last used, on
        average. The engine evicts the least recently used, so idle prefixes are evicted before
        these."""
        self._left: deque[tuple[float, int]] = deque()
        self.shared_tokens = 0
        """The prefix common to all programs' prompts, which the cache holds once."""
        self._first_hits: deque[int] = deque(maxlen=FIRST_CALLS)
        self.call_s: float | None = None
        """Engine seconds per call, while the engine is never idle."""
        self._last_end: float | None = None
        self._preemptions = 0.0
        self._turn = 0

    def room(self) -> float:
        """Unbooked tokens; negative if more is booked than available."""
        return self.budget() - self.held_tokens

    def over(self) -> bool:
        """Whether the places hold more than the budget."""
        capacity = (self.engine.capacity_tokens or 0) + self._shared_credit()
        return self.held_tokens + self.lingering_tokens > capacity

    def budget(self) -> float:
        """Tokens available for booking. The prefix shared by all programs is counted once."""
        given = (self.engine.capacity_tokens or 0) * self.level
        return given + self._shared_credit() - self.lingering_tokens

    def _shared_credit(self) -> int:
        return self.shared_tokens * max(len(self.places) - 1, 0)

    def fits(self, profile: list[float]) -> bool:
        """Whether `profile` fits beside the demand of the current places."""
        budget = self.budget() + self.shared_tokens
        return all(there + more <= budget for there, more in zip(self.demand, profile, strict=True))

    def hold(self, place: Place, tokens: int) -> None:
        """Set the tokens that a place holds."""
        tokens = self.engine.blocks(tokens)
        self.held_tokens += tokens - place.tokens
        place.tokens = tokens
        self.stale[place.program.program_id] = place

    def first_hit(self, cached: int) -> None:
        """Record the cache hits of a program's first call: a prefix that other programs left."""
        self._first_hits.append(cached)
        if len(self._first_hits) == FIRST_CALLS:
            self.shared_tokens = min(self._first_hits)

    def look_back(self, now: float, idle_s: float) -> None:
        """Measure how much cache was filled by ended programs since the longest idle program was
        used, or since `idle_s` ago if that is later, because programs away for longer are not
        waited for."""
        first = next(iter(self.idle.values()), None)
        used = now if first is None else first.program.idle_since
        since = max(now if used is None else used, now - idle_s)
        while self._left and self._left[0][0] < since:
            self._left.popleft()
        left = sum(tokens for _, tokens in self._left)
        self.lingering_tokens += (left - self.lingering_tokens) / LOOKS

    def ended(self, now: float) -> None:
        if self._last_end is not None:
            gap = now - self._last_end
            self.call_s = gap if self.call_s is None else self.call_s + (gap - self.call_s) / PACE
        self._last_end = now if self.engine.running else None

    def book(self, place: Place, profile: list[float]) -> None:
        """Replace the demand booked for a place."""
        self.demand = [
            there + tokens - before
            for there, tokens, before in zip(self.demand, profile, place.profile, strict=True)
        ]
        place.profile = profile

    def enter(self, place: Place) -> None:
        """Give a program a place, with nothing booked yet."""
        self.places[place.program.program_id] = place

    def leave(self, place: Place, now: float) -> None:
        """Remove a program's place."""
        self._left.append((now, place.tokens))
        name = place.program.program_id
        del self.places[name]
        self.idle.pop(name, None)
        self.stale.pop(name, None)
        self.held_tokens -= place.tokens
        self.book(place, [0.0] * len(HORIZON))
        if not self.places:
            self.demand = [0.0] * len(HORIZON)  # rounding errors accumulate in the sum

    def preempted(self, total: float) -> None:
        """Lower the level on preemptions; the argument is the engine's total so far."""
        if total > self._preemptions > 0 and self._turn >= 0:
            self._lower()
        self._preemptions = max(total, 1.0)

    def _lower(self) -> None:
        self.level = max(LEVEL_LEAST, self.level * LEVEL_DOWN)
        self._turn = -len(self.places)  # wait until the places given out have turned over

    def found(self, share: float, waiting: bool) -> None:
        """Adjust the level after a `share` of a retained prefix was in the cache, at most once per
        turnover of all places."""
        self._turn += 1
        if share < 0.75:
            if self._turn >= 0:
                self._lower()
        elif waiting and self._turn >= len(self.places):
            self.level = min(LEVEL_MOST, self.level + LEVEL_UP)
            self._turn = 0
