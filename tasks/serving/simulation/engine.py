"""A simulated engine: vLLM v1's scheduling loop over counted blocks. It has no clock of its own.

An iteration takes ``a + b * prefill tokens + c * decoding requests + d * context tokens + e *
requests admitted`` seconds. A run of decode iterations without events is one step in closed form;
an arrival cuts it at the next boundary. Modelled of vLLM: running requests first, then waiting
ones, first come, first served; a token budget per iteration and chunked prefill; admission when the
blocks of the whole prompt are free; prefix match at admission, in whole blocks and never of the
last token; preemption of the request admitted last when a decoding request finds no free block.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf, sqrt


@dataclass(slots=True, eq=False)
class FreedBlocks:
    """Unreferenced blocks that were freed together."""

    key: Hashable
    turn: int
    full: int
    """Blocks that a prompt can match, index 0 up."""
    empty: int


class BlockCache:
    """The prefix cache of one engine, as counts of blocks in LRU order.

    The blocks of one owner (a program, or the system prompt of a group) are a run, index 0 first.
    vLLM frees a request's blocks tail first and reuses the block freed longest ago, so a run
    shrinks from its tail and the rest is always a prefix: a count suffices.
    """

    __slots__ = ("free", "queue", "runs", "total")

    def __init__(self, total: int) -> None:
        self.total = self.free = total
        self.queue: OrderedDict[FreedBlocks, None] = OrderedDict()
        """Runs in order of the time they were freed, oldest first."""
        self.runs: dict[Hashable, FreedBlocks] = {}
        """The run of each owner that has one that can be matched."""
        self.queue[FreedBlocks(None, 0, 0, total)] = None

    def cached(self, key: Hashable) -> int:
        """Return how many of its blocks the owner could match now."""
        run = self.runs.get(key)
        return 0 if run is None else run.full

    def match(self, key: Hashable, most: int) -> int:
        """Reference the owner's first blocks, at most `most`: they leave the queue. The rest of the
        run can never be matched again and stays until it is reused."""
        run = self.runs.pop(key, None)
        if run is None:
            return 0
        hit = min(run.full, most)
        run.full -= hit
        self.free -= hit
        if run.full + run.empty == 0:
            del self.queue[run]
        return hit

    def allocate(self, count: int) -> None:
        """Take `count` blocks, those freed longest ago first. There must be as many free."""
        assert count <= self.free, f"{count} blocks asked for, {self.free} free"
        self.free -= count
        queue = self.queue
        while count:
            run = next(iter(queue))
            size = run.full + run.empty
            if size <= count:
                count -= size
                del queue[run]
                if self.runs.get(run.key) is run:
                    del self.runs[run.key]
            else:
                empty = min(count, run.empty)
                run.empty -= empty
                run.full -= count - empty
                count = 0

    def give(self, key: Hashable, turn: int, full: int, empty: int) -> None:
        """Return a request's blocks: `full` can be matched from now on, `empty` cannot."""
        if full + empty == 0:
            return
        run = FreedBlocks(key, turn, full, empty)
        self.queue[run] = None
        self.free += full + empty
        if full:
            self.runs[key] = run
        else:
            self.runs.pop(key, None)


@dataclass(frozen=True, slots=True)
class EngineModel:
    """An engine's size and speed."""

    name: str
    kv_tokens: int
    """KV cache; one block of it is vLLM's null block."""
    block_tokens: int = 32
    max_num_seqs: int = 64
    max_batched_tokens: int = 2048
    iteration_s: float = 0.01
    """a: an empty iteration."""
    prefill_token_s: float = 1e-4
    """b: a computed prompt token."""
    decode_s: float = 1e-4
    """c: a decoding request."""
    context_token_s: float = 0.0
    """d: a token of context attended to."""
    request_s: float = 0.0
    """e: an admitted request: reading, tokenising, answering it."""

    @property
    def blocks(self) -> int:
        """Blocks available to requests."""
        return self.kv_tokens // self.block_tokens - 1

    @property
    def longest_call(self) -> int:
        """Most tokens of prompt and answer that fit."""
        return self.blocks * self.block_tokens


@dataclass(slots=True, eq=False)
class SimRequest:
    """One call as the engine sees it."""

    key: Hashable
    turn: int
    prompt: int
    output: int
    kept: int = 0
    """Leading prompt tokens shared with the program's previous context."""
    shared: int = 0
    """Leading tokens common to the prompts of its group."""
    group: Hashable = None
    call: object = None
    cached: int = -1
    """Prompt tokens matched when first admitted."""
    computed: int = 0
    """Tokens whose keys and values are computed; once it decodes, as of `start_it`."""
    target: int = 0
    produced: int = 0
    blocks: int = 0
    """Its own blocks, without the shared ones."""
    start_it: int = 0
    end_it: int = 0
    decoding: bool = False
    ran: bool = False


class SimEngine:
    """A simulated vLLM engine, driven from one iteration boundary to the next."""

    def __init__(self, model: EngineModel) -> None:
        self.model = model
        self.cache = BlockCache(model.blocks)
        self.next_at = inf
        """The next boundary; infinite if there is nothing to do."""
        self.waiting: deque[SimRequest] = deque()
        self.running: dict[SimRequest, None] = {}
        self.preemptions = self.recomputed = 0
        self.queries = self.hits = self.prefilled = 0
        self._groups: dict[Hashable, int] = {}
        self._chunks: list[tuple[SimRequest, int]] = []
        self._prefilling: dict[SimRequest, None] = {}
        self._ends: list[tuple[int, int, SimRequest]] = []
        self._phases = [0] * model.block_tokens
        """How many decoding requests need a block in iterations of each residue class."""
        self._decoding = 0
        self._context = 0
        self._it = 0
        self._serial = 0
        self._planned = 0
        self._start = 0.0
        self._first_s = self._slope_s = 0.0

    def submit(self, request: SimRequest, now: float) -> None:
        """Add a request; it is considered at the first boundary after `now`."""
        assert request.prompt + request.output <= self.model.longest_call, (
            f"{request.prompt} + {request.output} tokens never fit {self.model.name}'s "
            f"{self.model.longest_call}"
        )
        self.waiting.append(request)
        if self.next_at == inf:
            self._start = now
            self._plan()
        elif len(self.waiting) == 1 and len(self.running) < self.model.max_num_seqs:
            self._cut(now)

    def boundary(self) -> tuple[list[SimRequest], list[SimRequest]]:
        """Advance to `next_at`. Return the requests that got a first token, and those that
        ended."""
        started: list[SimRequest] = []
        ended: list[SimRequest] = []
        now = self.next_at
        self._commit_decode(self._planned, ended)
        if self._chunks:
            self._commit_prefill(started, ended)
        self._start = now
        self._plan()
        return started, ended

    def kv_usage(self, now: float) -> float:
        """Return the share of blocks that requests hold."""
        taken = self.cache.total - self.cache.free
        if self._planned > 1 and self._decoding:
            taken += self._blocks_for(max(self._iterations_by(now) - 1, 0))
        return taken / self.cache.total

    def _plan(self) -> None:
        preempted = self._preempt()
        model, budget = self.model, self.model.max_batched_tokens - self._decoding
        chunks = self._chunks = []
        for request in self._prefilling:
            if budget <= 0:
                break
            chunk = min(request.target - request.computed, budget)
            budget -= chunk
            chunks.append((request, chunk))
        new = 0 if preempted else self._admit(budget)
        decoding = self._decoding
        if not decoding and not chunks:
            self._planned, self.next_at = 0, inf
            return
        context = self._context
        self._slope_s = model.context_token_s * decoding
        seconds = model.iteration_s + model.decode_s * decoding + model.request_s * new
        if chunks:
            for request, chunk in chunks:
                seconds += model.prefill_token_s * chunk
                context += request.computed + chunk
            self._planned = 1
        else:
            self._planned = self._longest_run()
        self._first_s = seconds + model.context_token_s * context
        self.next_at = self._time_of(self._planned)

    def _admit(self, budget: int) -> int:
        count, waiting = 0, self.waiting
        reserved = self._phases[self._it % self.model.block_tokens] if waiting else 0
        while waiting and budget > 0 and len(self.running) < self.model.max_num_seqs:
            request = waiting[0]
            if not self._enter(request, reserved):
                break
            waiting.popleft()
            count += 1
            chunk = min(request.target - request.computed, budget)
            budget -= chunk
            self._chunks.append((request, chunk))
        return count

    def _enter(self, request: SimRequest, reserved: int) -> bool:
        block, cache = self.model.block_tokens, self.cache
        target = request.prompt + request.produced
        shared = request.shared // block
        total = -(-target // block) - shared
        held = shared == 0 or request.group in self._groups
        group_hit = shared if held else min(shared, cache.cached(("group", request.group)))
        most = self._matchable(request, target) if group_hit == shared else 0
        hit = min(most, cache.cached(request.key))
        fresh = total - hit + (shared - group_hit)
        leaving = hit + (0 if held else group_hit)
        if fresh + leaving + reserved > cache.free:
            return False
        cache.match(request.key, hit)
        if shared:
            if not held:
                cache.match(("group", request.group), group_hit)
            self._groups[request.group] = self._groups.get(request.group, 0) + 1
        cache.allocate(fresh)
        self._account(request, target, (group_hit + hit) * block, (group_hit + most) * block)
        request.blocks, request.target = total, target
        self.running[request] = None
        self._prefilling[request] = None
        return True

    def _matchable(self, request: SimRequest, target: int) -> int:
        run = self.cache.runs.get(request.key)
        same = run is not None and run.turn == request.turn
        kept = target if same else request.kept
        block = self.model.block_tokens
        return max(min(kept, target - 1) // block - request.shared // block, 0)

    def _account(self, request: SimRequest, target: int, hit: int, could: int) -> None:
        request.computed = hit
        self.prefilled += target - hit
        self.recomputed += could - hit
        if request.ran:
            return
        request.ran = True
        request.cached = hit
        self.queries += target
        self.hits += hit

    def _preempt(self) -> bool:
        before, block = self.preemptions, self.model.block_tokens
        while self._phases[self._it % block] > self.cache.free:
            request = next(reversed(self.running))
            self._leave(request)
            self.waiting.appendleft(request)
            self.preemptions += 1
        return self.preemptions > before

    def _leave(self, request: SimRequest) -> None:
        block, shared = self.model.block_tokens, request.shared // self.model.block_tokens
        del self.running[request]
        computed, held = request.computed, request.blocks
        if request.decoding:
            done = self._it - request.start_it
            computed += done
            request.produced += done
            held = -(-computed // block) - shared
            request.decoding = False
            self._decoding -= 1
            self._context -= computed
            self._phases[(request.start_it - request.computed) % block] -= 1
        else:
            self._prefilling.pop(request, None)
        full = max(computed // block - shared, 0)
        self.cache.give(request.key, request.turn, full, held - full)
        if shared:
            self._groups[request.group] -= 1
            if not self._groups[request.group]:
                del self._groups[request.group]
                self.cache.give(("group", request.group), 0, shared, 0)

    def _commit_decode(self, iterations: int, ended: list[SimRequest]) -> None:
        if self._decoding:
            self.cache.allocate(self._blocks_for(iterations))
            self._context += self._decoding * iterations
        self._it += iterations
        ends = self._ends
        while ends and ends[0][0] <= self._it:
            end_it, _, request = heapq.heappop(ends)
            if request.decoding and request.end_it == end_it:
                self._leave(request)
                ended.append(request)

    def _commit_prefill(self, started: list[SimRequest], ended: list[SimRequest]) -> None:
        for request, chunk in self._chunks:
            request.computed += chunk
            if request.computed < request.target:
                continue
            del self._prefilling[request]
            request.produced += 1
            if request.produced == 1:
                started.append(request)
            if request.produced >= request.output:
                self._leave(request)
                ended.append(request)
            else:
                self._decode(request)
        self._chunks = []

    def _decode(self, request: SimRequest) -> None:
        request.decoding = True
        request.start_it = self._it
        request.end_it = self._it + request.output - request.produced
        self._serial += 1
        heapq.heappush(self._ends, (request.end_it, self._serial, request))
        self._decoding += 1
        self._context += request.computed
        self._phases[(self._it - request.computed) % self.model.block_tokens] += 1

    def _longest_run(self) -> int:
        while not (self._ends[0][2].decoding and self._ends[0][2].end_it == self._ends[0][0]):
            heapq.heappop(self._ends)
        most = self._ends[0][0] - self._it
        if self._decoding * (most // self.model.block_tokens + 1) <= self.cache.free:
            return most
        if self._blocks_for(most) <= self.cache.free:
            return most
        run = self.cache.free // self._decoding * self.model.block_tokens
        left = self.cache.free - self._blocks_for(run)
        while run < most:
            left -= self._phases[(self._it + run) % self.model.block_tokens]
            if left < 0:
                break
            run += 1
        return run

    def _blocks_for(self, iterations: int) -> int:
        size, phases = self.model.block_tokens, self._phases
        start = self._it % size
        cycles, rest = divmod(iterations, size)
        end = start + rest
        blocks = cycles * self._decoding
        if end <= size:
            return blocks + sum(phases[start:end])
        return blocks + sum(phases[start:]) + sum(phases[: end - size])

    def _time_of(self, iterations: int) -> float:
        growth = iterations * (iterations - 1) / 2
        return self._start + iterations * self._first_s + growth * self._slope_s

    def _iterations_by(self, now: float) -> int:
        passed, first, slope = now - self._start, self._first_s, self._slope_s
        if slope > 0.0:
            half = first - slope / 2
            guess = int((sqrt(half * half + 2 * slope * max(passed, 0.0)) - half) / slope) + 1
        else:
            guess = int(passed / first) + 1
        guess = max(guess, 1)
        while self._time_of(guess) <= now:
            guess += 1
        while guess > 1 and self._time_of(guess - 1) > now:
            guess -= 1
        return guess

    def _cut(self, now: float) -> None:
        if self._planned > 1:
            self._planned = min(self._planned, self._iterations_by(now))
            self.next_at = self._time_of(self._planned)
