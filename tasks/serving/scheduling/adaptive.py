"""`adaptive`: keeps prefixes that are worth their cache space and admits what then fits.

* An admitted program gets a place: its context stays booked between its calls.
* A program is admitted to an engine if its forecast demand fits beside the demand of the current
  places at every horizon of future calls (`forecast`). Its own engine is tried first while its
  prefix is still cached there.
* An idle program's place is kept as long as the break-even rule says (`seconds_to_keep`). If a
  prefix is not clearly worth its space, or a cache hit saves little of a call's time, nothing is
  held and the engine alone decides.
* The share of the cache given out adapts: lost prefixes and preemptions lower it; a turnover of
  all places without either raises it.
* It acts on arrivals, ends and releases, not on a tick, and never holds a call while an engine
  has none running.
* First come, first served; smaller calls may overtake the first until it has waited as long as a
  place is usually held. After `max_wait_s` it gets the places of programs that become idle, so
  that every wait is bounded, even behind programs that never end.

Nothing in it is tuned to a model, an engine or a load: what a miss costs, growth, lengths and gaps
are measured. Tried and dropped (docs/log.md): rotating the places while contexts are small.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import nlargest

from tutti.tasks.serving.scheduling import reasons
from tutti.tasks.serving.scheduling.account import Account, Place
from tutti.tasks.serving.scheduling.forecast import (
    SURE,
    Forecast,
    MissPrice,
    Quantiles,
    seconds_to_keep,
)
from tutti.tasks.serving.scheduling.ledger import Call, EngineMetrics, EngineState, Program
from tutti.tasks.serving.scheduling.policy import Admission, Policy, least_loaded
from tutti.tasks.serving.scheduling.reasons import Reason, ReasonCode

LOOK_AHEAD = 16  # waiting calls tried for a place that the first does not fit in
ENGINES_TRIED = 3  # of those with the most room
PATIENCE_LEAST_S = 1.0
MAX_WAIT_S = 120.0  # then places are taken from programs that have calls to come
RENEW_GAPS = 16  # new gaps between two looks at how long to keep
UNKNOWN_S = float("inf")
WORTH = 0.07
"""Least share of a call's time that a prefix hit must save for holding other programs to pay off:
below it, a wrong guess costs more than a right one gains."""
TURNS = 64  # calls: what of a prompt could be found, by the last so many
OVER = 4.0  # times the longest gap seen
REUSE_SEEN = 0.05  # below it, the engine does not say what it finds, or prompts share nothing


class Adaptive(Policy):
    """Keeps the prefixes that are worth their cache space; admits what then fits."""

    name = "adaptive"

    def __init__(self, max_wait_s: float = MAX_WAIT_S) -> None:
        self.max_wait_s = max_wait_s
        self.forecast = Forecast()
        self.price = MissPrice()
        self.keep_s = UNKNOWN_S
        """How long an idle place is kept while other programs wait."""
        self._gaps = Quantiles(512)
        self._gaps_seen = 0
        self._lost = 0.0  # programs that never came back, fading like the gaps
        self._reuse = 0.0  # the share of a kept prefix that is found at best
        self._common = 1.0  # the share of a context that the next prompt begins with
        self._reusable = 0.0  # tokens of a prompt that could be found
        self._turns = 0  # calls that could find any
        self._parted: OrderedDict[str, Program] = OrderedDict()  # lost their place while idle
        self._stay_s = 0.0  # how long a place is held
        self._ready: OrderedDict[str, Call] = OrderedDict()
        self._queue: OrderedDict[str, Call] = OrderedDict()
        self._blocked = False  # nothing has changed since nobody fitted

    def changed(self, engine: EngineState, now: float) -> None:
        """Clear the account of an engine that is new, was restarted, or left."""
        self._blocked = False
        if engine.prefill_token_s is not None:
            self.price.measured = engine.prefill_token_s
            if self.keep_s == UNKNOWN_S and engine.capacity_tokens:
                # Before any gap is known: no prefix is worth more than the time to fill the cache.
                self.keep_s = engine.prefill_token_s * engine.capacity_tokens
        account = engine.note
        if isinstance(account, Account):
            if engine.engine_id in self.ledger.engines and engine.accepting:
                return
            for place in list(account.places.values()):
                self._leave(place, now)
        else:
            engine.note = Account(engine)

    def arrived(self, call: Call, now: float) -> None:
        """Make the call ready if its program has a place; queue it otherwise."""
        program = call.program
        place: Place | None = program.note
        if program.idle_since is not None and program.calls_done:
            self._parted.pop(program.program_id, None)
            self._came_back(now - program.idle_since, now)
        if place is not None:
            place.account.idle.pop(program.program_id, None)
            self._ready[call.call_id] = call
        else:
            self._queue[call.call_id] = call
            if len(self._queue) <= LOOK_AHEAD:
                self._blocked = False

    def withdrawn(self, call: Call, now: float) -> None:
        """Remove the call; its program may now be idle."""
        self._ready.pop(call.call_id, None)
        self._queue.pop(call.call_id, None)
        self._blocked = False
        self._rest(call.program)

    def admitted(self, call: Call, now: float) -> None:
        """Book the call; give the program a place if it has none on that engine."""
        engine = call.engine
        assert engine is not None
        account: Account = engine.note
        place: Place | None = call.program.note
        if place is not None and place.account is not account:
            self._leave(place, now)
            place = None
        if place is None:
            place = Place(call.program, account, now)
            call.program.note = place
            account.enter(place)
            for other in call.program.waiting.values():  # goes too, now that there is a place
                if self._queue.pop(other.call_id, None) is not None:
                    self._ready[other.call_id] = other
        account.idle.pop(call.program.program_id, None)
        account.hold(place, self._tokens(call.program, None))

    def finished(self, call: Call, now: float) -> None:
        """Learn from the call; mark its program idle if it has no other running call."""
        self._blocked = False
        place: Place | None = call.program.note
        if call.usage is not None:
            self._learn(call, place, now)
        if place is None:
            return
        place.account.look_back(now, self._gaps.at(0.5) if len(self._gaps) else UNKNOWN_S)
        place.calls += 1
        place.kept = call.usage is not None
        place.account.hold(place, self._tokens(call.program, None))
        self._rest(call.program)
        first = next(iter(self._queue.values()), None)
        is_overdue = first is not None and now - first.arrived > self.max_wait_s
        if is_overdue and call.program.program_id in place.account.idle:
            self.log("pause", call.program, None, reasons.OTHERS_WAITED)
            self._leave(place, now)
        self._shed(place.account, now)

    def _shed(self, account: Account, now: float) -> None:
        capacity = account.engine.capacity_tokens
        while capacity and account.over() and account.idle:
            newest = max(account.idle.values(), key=lambda place: place.since)
            self.log("pause", newest.program, None, reasons.OUTGROWN)
            self._leave(newest, now)

    def gone(self, program: Program, now: float, reason: Reason) -> None:
        """Free the program's place and record its number of calls."""
        self._blocked = False
        released = reason.code is ReasonCode.RELEASED
        if released or self._parted.pop(program.program_id, None) is not None:
            self.forecast.program_ended(program.calls_done)
        place: Place | None = program.note
        if place is not None:
            self._leave(place, now)

    def observed(self, engine: EngineState, sample: EngineMetrics, now: float) -> None:
        """Lower the level on preemptions: more was booked than there is."""
        self._blocked = False
        if sample.preemptions_total is not None:
            engine.note.preempted(sample.preemptions_total)

    def ticked(self, now: float) -> None:
        """Reconsider idle places: one may no longer be worth its space."""
        self._blocked = False

    def wake_at(self, now: float) -> float | None:
        """Return when the longest idle place reaches its time to keep."""
        if not self._queue or self.keep_s == UNKNOWN_S:
            return None
        ends = [
            next(iter(engine.note.idle.values())).program.idle_since + self.keep_s
            for engine in self.ledger.engines.values()
            if engine.note.idle
        ]
        return min((end for end in ends if end > now), default=None)

    def admit(self, now: float) -> Iterable[Admission]:
        """Admit calls of programs with a place, then others that fit, in order of arrival."""
        yield from self._admit_ready(now)
        while self._queue and not self._blocked:
            found = self._next(now)
            if found is None:
                self._blocked = True
                return
            del self._queue[found[0].call_id]
            yield found
            yield from self._admit_ready(now)

    def _admit_ready(self, now: float) -> Iterator[Admission]:
        for call_id, call in list(self._ready.items()):
            place: Place | None = call.program.note
            if place is None:  # its engine was removed
                del self._ready[call_id]
                self._queue[call_id] = call
                self._queue.move_to_end(call_id, last=False)
                self._blocked = False
            elif place.account.engine.open:
                del self._ready[call_id]
                yield call, place.account.engine

    def _next(self, now: float) -> Admission | None:
        first = next(iter(self._queue.values()))
        engines = self.ledger.open_engines()
        if not engines:
            return None
        unbooked = [engine for engine in engines if engine.capacity_tokens is None]
        if unbooked or self.keep_s == 0:
            engine = least_loaded(self.ledger, first.program)
            return None if engine is None else (first, engine)
        idle = [engine for engine in engines if not engine.running]
        if idle:
            own = first.program.engine
            return first, own if own in idle and first.program.may_be_cached else idle[0]
        roomiest = nlargest(ENGINES_TRIED, engines, key=lambda engine: engine.note.room())
        for place, call in enumerate(self._queue.values()):
            if place >= LOOK_AHEAD:
                return None
            engine = self._fitting(call, roomiest, now)
            if engine is not None:
                return call, engine
            if place == 0 and now - call.arrived > self.patience_s:
                return None
        return None

    def _fitting(self, call: Call, engines: list[EngineState], now: float) -> EngineState | None:
        tokens = engines[0].blocks(self._tokens(call.program, call))
        profile = self._profile(tokens, call.program.calls_done + len(call.program.running) + 1)
        own = call.program.engine
        tried = engines
        if own is not None and own.open and call.program.may_be_cached:
            tried = [own, *(engine for engine in engines if engine is not own)]
        first = next(iter(self._queue.values())) is call
        for engine in tried:
            account: Account = engine.note
            self._settle(account)
            if account.fits(profile):
                return engine
            if first and self._make_room(account, profile, now):
                return engine
        return None

    def _make_room(self, account: Account, profile: list[float], now: float) -> bool:
        while account.idle:
            place = next(iter(account.idle.values()))
            since = place.program.idle_since
            assert since is not None
            if since + self.keep_s > now:
                return False
            text = f"idle for more than {self.keep_s:.3f} s"
            self.log("pause", place.program, None, Reason(ReasonCode.IDLE, text))
            self._leave(place, now)
            self._parted[place.program.program_id] = place.program
            if account.fits(profile):
                return True
        return False

    @property
    def patience_s(self) -> float:
        """Return how long smaller calls may overtake the first."""
        return max(PATIENCE_LEAST_S, self._stay_s)

    def booked_tokens(self, engine: EngineState) -> int:
        account: Account = engine.note
        return account.held_tokens

    def reason(self, call: Call) -> Reason:
        """Return the largest room of an engine, and the call's need."""
        engines = self.ledger.open_engines()
        if not engines:
            return reasons.NO_ENGINE
        room = max(engine.note.room() for engine in engines)
        free = f"{max(room, 0):.0f} are free"
        text = f"needs {call.need_tokens} tokens and room to grow; {free}"
        return Reason(ReasonCode.NO_ROOM, text)

    def _rest(self, program: Program) -> None:
        place: Place | None = program.note
        if place is not None and not program.running and not program.waiting:
            place.account.idle[program.program_id] = place
            place.account.idle.move_to_end(program.program_id)

    def _leave(self, place: Place, now: float) -> None:
        place.account.leave(place, now)
        place.program.note = None
        self._stay_s += (now - place.since - self._stay_s) / 16

    def _settle(self, account: Account) -> None:
        for place in account.stale.values():
            calls = place.program.calls_done + len(place.program.running)
            account.book(place, self._profile(place.tokens, calls))
        account.stale.clear()

    def _tokens(self, program: Program, call: Call | None) -> int:
        """The tokens that a program holds when its running calls end; `call` is one to be added."""
        tokens = context = program.context_tokens
        # Calls share the program's context; each adds its own answer.
        for each in program.running.values():
            tokens += max(self._need(each) - context, 0)
        return tokens if call is None else tokens + max(self._need(call) - context, 0)

    def _profile(self, tokens: int, calls: int) -> list[float]:
        return self.forecast.profile(tokens, self.forecast.growth(tokens), calls)

    def _need(self, call: Call) -> int:
        output = max(self.forecast.output(call.output_tokens), call.produced)
        return call.prompt_tokens + output

    def _learn(self, call: Call, place: Place | None, now: float) -> None:
        usage, engine = call.usage, call.engine
        assert usage is not None and engine is not None and call.admitted is not None
        engine.note.ended(now)
        grown = usage.prompt + usage.completion - call.previous_tokens
        self.forecast.call_ended(usage.completion, grown if call.previous_tokens else None)
        if usage.cached is None:
            return
        fresh = usage.prompt - usage.cached
        if call.first and isinstance(engine.note, Account):
            engine.note.first_hit(usage.cached)
        if call.first_token is None:
            self.price.add(fresh, usage.completion, now - call.admitted)
        else:
            self.price.add(fresh, 0, call.first_token - call.admitted)
        if not call.previous_tokens:
            return
        self._turns = min(self._turns + 1, TURNS)
        self._common += (call.common - self._common) / TURNS
        self._reusable += (call.common * call.previous_tokens - self._reusable) / self._turns
        block = engine.block_tokens
        expected = min(call.previous_tokens * call.common, usage.prompt - 1) // block * block
        if expected > 0 and place is not None and place.kept:
            share = min(usage.cached / expected, 1.0)
            self._reuse = max(self._reuse * 0.999, share)
            if self._reuse > REUSE_SEEN:
                place.account.found(share / self._reuse, bool(self._queue))

    def _came_back(self, gap: float, now: float) -> None:
        self._gaps.add(gap)
        self._gaps_seen += 1
        if self._gaps_seen % RENEW_GAPS == 0:
            self._presume_over(now)
            self._lost *= 1 - RENEW_GAPS / 512
            self._renew()

    def _presume_over(self, now: float) -> None:
        longest = self._gaps.sorted[-1] * OVER
        while self._parted:
            name, program = next(iter(self._parted.items()))
            if program.idle_since is None or now - program.idle_since < longest:
                return
            del self._parted[name]
            self.forecast.program_ended(program.calls_done)
            self._lost += 1

    def _renew(self) -> None:
        token_s, most_s = self.price.at_most(1.0), self.price.at_most(SURE)
        capacity = max((e.capacity_tokens or 0 for e in self.ledger.engines.values()), default=0)
        if token_s is None or most_s is None or not capacity:
            return
        paces = [e.note.call_s for e in self.ledger.engines.values() if e.note.call_s is not None]
        saved_s = token_s * self._reusable
        if paces and saved_s < WORTH * sum(paces) / len(paces):
            self.keep_s = 0.0
            return
        refill_s = most_s * capacity * (self._reuse or 1.0) * self._common
        self.keep_s = seconds_to_keep(self._gaps, round(self._lost), refill_s)
