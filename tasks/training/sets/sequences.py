"""Training sequences from recorded ids; text is never tokenised again.

A call whose prompt begins with exactly an existing sequence continues it. If a template or an agent
rewrote earlier messages (thinking stripped, context cut, a branch), a new sequence begins, and the
reason is counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.storage import read_prompts

NOT_TRAINED = -1
FIRST, ANSWER, HISTORY = "first", "answer rewritten", "history rewritten"


@dataclass(frozen=True)
class RecordedCall:
    """A call of the trained model, as the engine recorded it."""

    call_id: str
    prompt: Sequence[int]
    completion: Sequence[int]
    logprobs: Sequence[float]  # Of the completion, by the weights that sampled it
    weights: str | None = None  # Their version at its start

    def is_truncated(self, ends: frozenset[int]) -> bool:
        """Whether the answer was cut: its last id ends no turn. (`finish_reason` may be wrong.)"""
        return not self.completion or self.completion[-1] not in ends


@dataclass
class TokenSequence:
    """A sequence of n ids that one model read and wrote."""

    ids: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    """[n] the turn in which the model wrote the id; -1 where it did not, or is not trained."""
    logprobs: list[float] = field(default_factory=list)
    """[n] log probability of ids that are trained; 0 elsewhere."""
    calls: list[str] = field(default_factory=list)
    weights: list[str | None] = field(default_factory=list)  # Of each call
    reason: str = FIRST  # Why it began

    @property
    def trained(self) -> int:
        """Number of ids to train on."""
        return sum(turn != NOT_TRAINED for turn in self.turns)

    def continues(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt begins with the whole sequence."""
        return len(prompt) >= len(self.ids) and list(prompt[: len(self.ids)]) == self.ids

    def add(self, call: RecordedCall, turn: int) -> None:
        """Append a call's new ids; `turn` is -1 if its answer is not trained on."""
        new = call.prompt[len(self.ids) :]
        self.ids += [*new, *call.completion]
        self.turns += [NOT_TRAINED] * len(new) + [turn] * len(call.completion)
        logprobs = call.logprobs if turn != NOT_TRAINED else [0.0] * len(call.completion)
        self.logprobs += [0.0] * len(new) + list(logprobs)
        self.calls.append(call.call_id)
        self.weights.append(call.weights)


@dataclass(frozen=True)
class AttemptSequences:
    """One attempt as sequences."""

    sequences: list[TokenSequence]
    turns: int  # Calls, trained or not: turns are numbered from 0 in order of the calls
    truncated: int  # Calls that were cut; their answers are context and not trained
    breaks: Counter[str]  # Sequences that began after the first, by reason


def sequences_of(calls: Iterable[RecordedCall], ends: frozenset[int]) -> AttemptSequences:
    """Return the sequences of one attempt's calls, in order; `ends` are the ids that end a turn."""
    every: list[TokenSequence] = []
    truncated, turns = 0, 0
    for turn, call in enumerate(calls):
        turns += 1
        cut = call.is_truncated(ends)
        truncated += cut
        fitting = [each for each in every if each.continues(call.prompt)]
        if not fitting:
            fitting = [TokenSequence(reason=_why(every, call))]
            every += fitting
        sequence = max(fitting, key=lambda each: len(each.ids))
        sequence.add(call, NOT_TRAINED if cut else turn)
    breaks = Counter(each.reason for each in every[1:])
    return AttemptSequences([each for each in every if each.trained], turns, truncated, breaks)


def recorded_calls(rows: Sequence[Mapping[str, Any]]) -> list[RecordedCall] | None:
    """Return the turns (`is_turn`) of one attempt from all its rows of `calls`, in order.

    None if ids or log probabilities of a turn were not recorded, or do not match. Raises
    BrokenSpans.
    """
    turns = [row for row in rows if row["is_turn"]]
    prompts = read_prompts(rows, {row["call_id"] for row in turns})
    calls = []
    for row in turns:
        name, ids, logprobs = row["call_id"], row["token_ids"], row["logprobs"]
        if name not in prompts or ids is None or logprobs is None:
            return None
        if len(ids) != len(logprobs) or None in logprobs:
            return None
        calls.append(RecordedCall(name, prompts[name], ids, logprobs, row["weights_at_start"]))
    return calls


def _why(every: Sequence[TokenSequence], call: RecordedCall) -> str:
    """Why a call continues no sequence: the prompt changes an answer, or all before it."""
    if not every:
        return FIRST
    last = every[-1]
    pairs = enumerate(zip(last.ids, call.prompt, strict=False))
    same = next((nth for nth, (ours, theirs) in pairs if ours != theirs), len(call.prompt))
    written = next((nth for nth, turn in enumerate(last.turns) if turn != NOT_TRAINED), None)
    return ANSWER if written is not None and same >= written else HISTORY
