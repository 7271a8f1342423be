"""A recorded run as the simulator needs it: programs, sizes, pauses, and the measured figures.

In: rows of the tables `calls`, `cells`, `sweeps` and `artifacts`, or calls from elsewhere. Out: a
`Recording`, and `plans`, the same programs to be simulated. A program's call is sent as long after
the previous answer as in the run; overlapping calls of a program are run one after the other.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tutti.tasks.serving.scheduling import DEFAULT_CAP
from tutti.tasks.serving.simulation.outcome import Figures, common_figures
from tutti.tasks.serving.simulation.workload import (
    HOP_S,
    ProgramPlan,
    SimulationError,
    SimulationSettings,
    Turn,
)

if TYPE_CHECKING:
    from tutti.storage import Home

BLOCK_TOKENS = 32
SQL = """
select attempt_id as program, sent_at, ended_at, held_s, ttft_s, latency_s, prompt_tokens,
       cached_tokens, completion_tokens, endpoint
from calls
where cell_id = $cell and role = 'orchestrator' and status = 'ok' and prompt_tokens > 0
      and completion_tokens > 0 and sent_at is not null and ended_at is not null
order by sent_at, call_id
"""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One answered call; times are seconds since the run's first."""

    program: str
    sent_s: float
    ended_s: float
    held_s: float
    prompt: int
    cached: int
    output: int
    endpoint: str = ""
    kept: int | None = None
    """Leading prompt tokens shared with the previous context; None: all of it."""
    pause_s: float | None = None
    """Duration of the tool run after it; None: until the program's next call."""

    @property
    def latency_s(self) -> float:
        """Latency in seconds, held time included."""
        return self.ended_s - self.sent_s


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of one cell."""

    cell_id: str
    policy: str
    sessions: int
    calls: tuple[RecordedCall, ...] = field(repr=False)
    engines: int = 1
    kv_tokens: int | None = None
    block_tokens: int = BLOCK_TOKENS
    max_num_seqs: int = 256
    max_batched_tokens: int = 2048
    released: bool = True
    streams: bool = True
    gateway: bool = True
    """Whether calls passed our gateway and so include its hop."""
    back_to_back: bool = False
    """Whether sessions begin their next program at once, so that any pause before one is due to the
    load."""

    def programs(self) -> dict[str, list[RecordedCall]]:
        """The calls of each program in order, programs in order of their first."""
        found: dict[str, list[RecordedCall]] = defaultdict(list)
        for call in sorted(self.calls, key=lambda call: call.sent_s):
            found[call.program].append(call)
        return dict(found)

    @property
    def shared_tokens(self) -> int:
        """Length of the common prefix: the cached tokens of most programs' first call."""
        firsts = [calls[0] for calls in self.programs().values()]
        found = sorted(call.cached for call in firsts[1:])
        if not found:
            return 0
        middle = found[len(found) // 2]
        shortest = min(call.prompt for call in firsts)
        return min(middle, (shortest - 1) // self.block_tokens * self.block_tokens)

    def settings(self, hop_s: float = HOP_S) -> SimulationSettings:
        """Simulation settings that match the run; without a gateway there is no hop."""
        hop_s = hop_s if self.gateway else 0.0
        return SimulationSettings(hop_s, self.shared_tokens, self.streams, self.released)

    def measured(self) -> Figures:
        """The run's own figures, by the simulator's definitions."""
        steps = [end for calls in self.programs().values() for end in _step_ends(calls)]
        figures = common_figures(
            steps,
            [call.latency_s for call in self.calls],
            [call.held_s for call in self.calls],
            max(*(call.ended_s for call in self.calls), 1e-9),
        )
        hits = sum(c.cached for c in self.calls) / sum(c.prompt for c in self.calls)
        return Figures(hit_share=hits, **figures)

    def plans(self) -> list[ProgramPlan]:
        """The programs for simulation; each begins after the same pause since a session was free as
        in the run."""
        programs = self.programs()
        free = sorted(calls[-1].ended_s for calls in programs.values())
        plans = []
        for place, (name, calls) in enumerate(programs.items()):
            before = calls[0].sent_s
            if place >= self.sessions:
                before = 0.0 if self.back_to_back else before - free[place - self.sessions]
            before = max(before, 0.0)
            plans.append(ProgramPlan(name, tuple(_turns(calls)), before))
        return plans


def _turns(calls: Sequence[RecordedCall]) -> list[Turn]:
    turns, context = [], 0
    for place, call in enumerate(calls):
        kept = min(context if call.kept is None else call.kept, call.prompt)
        last = place + 1 == len(calls)
        pause = 0.0 if last else max(calls[place + 1].sent_s - call.ended_s, 0.0)
        pause = pause if call.pause_s is None else call.pause_s
        turns.append(Turn(call.prompt, call.output, kept, pause, call.output))
        context = call.prompt + call.output
    return turns


def _step_ends(calls: Sequence[RecordedCall]) -> list[float]:
    """Return the ends of steps: a step lasts until its tool has run or the next call is sent; a
    program's last step, until its answer."""
    known = [None if call.pause_s is None else call.ended_s + call.pause_s for call in calls]
    following = [call.sent_s for call in calls[1:]] + [calls[-1].ended_s]
    return [sent if end is None else end for end, sent in zip(known, following, strict=True)]


def load_recording(cell: str, home: "Home | None" = None) -> Recording:
    """Load a cell from the store. Raises SimulationError if it does not exist or has no answered
    call."""
    from tutti.storage import query

    cells = query(
        "select c.*, s.spec, a.detail from cells c left join sweeps s using (sweep_id) "
        "left join artifacts a on a.artifact_id = c.engine_id where c.cell_id = $cell",
        home,
        {"cell": cell},
    )
    if not cells:
        raise SimulationError(f"no cell {cell!r}; tutti sql 'select * from cells' lists them")
    row = cells[0]
    calls = calls_of(query(SQL, home, {"cell": cell}))
    if not calls:
        raise SimulationError(f"cell {cell}: no call was answered, so there is nothing to simulate")
    settings = json.loads(row["detail"] or "{}").get("settings") or {}
    blocks = settings.get("kv_blocks")
    recording = Recording(
        cell_id=cell,
        policy=stored_policy(row["policy"], json.loads(row["spec"] or "{}")),
        sessions=row["concurrency"] or len({call.program for call in calls}),
        calls=calls,
        engines=len({call.endpoint for call in calls}) or 1,
        kv_tokens=blocks * BLOCK_TOKENS if blocks else None,
    )
    sizes = {"max_num_seqs": "max_sequences", "max_batched_tokens": "max_batched_tokens"}
    known = {ours: settings[theirs] for ours, theirs in sizes.items() if settings.get(theirs)}
    return replace(recording, **known)


def calls_of(rows: Sequence[Mapping[str, Any]]) -> tuple[RecordedCall, ...]:
    """The calls in rows of `calls`, in order of sending."""
    calls = []
    for row in rows:
        sent = (row["sent_at"] - rows[0]["sent_at"]).total_seconds()
        latency = row["latency_s"]
        if latency is None:
            latency = (row["ended_at"] - row["sent_at"]).total_seconds()
        call = RecordedCall(
            program=row["program"],
            sent_s=sent,
            ended_s=sent + latency,
            held_s=min(row["held_s"] or 0.0, latency),
            prompt=row["prompt_tokens"],
            cached=min(row["cached_tokens"] or 0, row["prompt_tokens"]),
            output=row["completion_tokens"],
            endpoint=row["endpoint"] or "",
        )
        calls.append(call)
    return tuple(calls)


def stored_policy(name: str | None, spec: Mapping[str, Any]) -> str:
    """The cell's policy with the limit set by its sweep."""
    given = [each for each in spec.get("policies", ()) if isinstance(each, dict)]
    own = [each["limit"] for each in given if each.get("name") == "cap" and "limit" in each]
    if name == "cap" and "policies" in spec:  # an import says no limit
        return f"cap:{own[0] if own else DEFAULT_CAP}"
    return name or "passthrough"
