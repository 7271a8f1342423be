"""Synthetic trajectories for the store's bench: seeded, with realistic sizes and shapes.

A trajectory is a question, five calls of a tool with its results, and an answer: 12 messages of
1,000 characters, six calls of a model, one score. Words are drawn one by one by Zipf's law, so the
text compresses worse than prose does (gzip -6 gets about 2.3, of documentation 3). Either no
message repeats another's text, neither within an attempt nor between attempts; or they repeat as a
sweep's do: a task is tried four times, a search finds some documents more often than others.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

MESSAGES = 12
CALLS = MESSAGES // 2
TEXT_BYTES = 1000
VOCABULARY = 20_000
ZIPF_SHIFT, ZIPF_EXPONENT = 2.7, 1.1  # Mandelbrot's form; gives English's share of frequent words
LETTERS = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", dtype="S1")
TRIALS = 4  # of a task
DOCUMENTS = 2000  # that a search can find
POPULARITY = 0.5  # Pareto's exponent: half of what is found is one of the 3 most found
RESULTS = 4  # documents in a tool's result
T0 = datetime(2026, 1, 1, tzinfo=UTC)
SWEEP, CELL, RUN = "sweep:00000000000000aa", "cell:00000000000000aa", "run:00000000000000aa"
BENCHMARK, MODEL, POLICY, CONCURRENCY = "made-up", "made-up-8b", "adaptive", 64

Rows = dict[str, list[dict[str, Any]]]


class RandomText:
    """An endless text of words drawn by Zipf's law."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        ranks = np.arange(VOCABULARY)
        weights = (ranks + ZIPF_SHIFT) ** -ZIPF_EXPONENT
        self._shares = np.cumsum(weights / weights.sum())
        self._words = pa.array([f"{word} " for word in self._vocabulary(ranks)])

    def _vocabulary(self, ranks: Any) -> Iterator[str]:
        shares = 1 / (np.arange(len(LETTERS)) + 3.0)
        # Frequent words are short, as in any language.
        lengths = 2 + 0.5 * np.log2(ranks + 2) + self.rng.normal(0, 1.2, len(ranks))
        for length in np.clip(np.round(lengths), 2, 14).astype(int):
            yield self.rng.choice(LETTERS, length, p=shares / shares.sum()).tobytes().decode()

    def text(self, size: int) -> bytes:
        """`size` characters of text."""
        drawn = np.searchsorted(self._shares, self.rng.random(size // 4 + 16))
        found = self._words.take(pa.array(np.minimum(drawn, VOCABULARY - 1)))
        data: bytes = found.buffers()[2].to_pybytes()[:size]
        assert len(data) == size, f"{len(data)} characters of {size}"
        return data

    def texts(self, count: int) -> list[str]:
        """`count` different message texts."""
        whole = self.text(count * TEXT_BYTES).decode()
        return [whole[at : at + TEXT_BYTES] for at in range(0, len(whole), TEXT_BYTES)]

    def hex(self, count: int, digits: int = 16) -> list[str]:
        """`count` random ids."""
        whole = self.rng.bytes(count * digits // 2).hex()
        return [whole[at : at + digits] for at in range(0, len(whole), digits)]


@dataclass(frozen=True)
class Trajectory:
    """One attempt: its rows by table, as a sweep's runner and the gateway make them."""

    attempt_id: str
    sample_id: str
    task_id: str
    rows: Rows

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation."""
        return self.rows["messages"]


def trajectories(count: int, seed: int, *, repeats: bool = False) -> list[Trajectory]:
    """`count` attempts of one cell; with `repeats` tasks and found documents come again."""
    words = RandomText(seed)
    made: list[Trajectory] = []
    again = _Again(words, count) if repeats else None
    for start in range(0, count, 1000):
        some = min(1000, count - start)
        texts, ids = words.texts(some * MESSAGES), words.hex(some * 2)
        call_ids = words.hex(some * CALLS, 32)
        times = words.rng.lognormal(0.0, 0.6, (some, CALLS))
        for nth in range(some):
            said = texts[nth * MESSAGES : (nth + 1) * MESSAGES]
            if again is not None:
                again.put(said, start + nth)
            calls = call_ids[nth * CALLS : (nth + 1) * CALLS]
            pair = (f"attempt:{ids[2 * nth]}", f"sample:{ids[2 * nth + 1]}")
            made.append(_trajectory(start + nth, pair, said, calls, times[nth].tolist()))
    return made


class _Again:
    """Repeated content of a sweep: its tasks, and the documents that its tool finds."""

    def __init__(self, words: RandomText, count: int) -> None:
        self._tasks = words.texts(max(1, count // TRIALS))
        self._documents = words.texts(DOCUMENTS)
        self._rng = words.rng

    def put(self, said: list[str], nth: int) -> None:
        """Replace an attempt's own words by a task and documents."""
        # Attempts differ at the end, for a mock model that answers by the question alone.
        said[0] = f"{self._tasks[nth % len(self._tasks)][:-8]}{nth:8d}"
        drawn = self._rng.pareto(POPULARITY, CALLS - 1).astype(int) % DOCUMENTS
        said[2::2] = [self._documents[place] for place in drawn]


def _trajectory(
    nth: int, ids: tuple[str, str], said: list[str], call_ids: list[str], times: list[float]
) -> Trajectory:
    attempt_id, sample_id = ids
    started = T0 + timedelta(seconds=nth * 0.05)
    key = {"sweep_id": SWEEP, "cell_id": CELL, "attempt_id": attempt_id}
    calls = list(_calls(key, call_ids, started, times))
    task_id = f"task-{nth % 500:04d}"
    attempt = _attempt(key, sample_id, task_id, nth, calls)
    answer = {"value": attempt["score"], "correct": attempt["correct"], "answer": attempt["answer"]}
    score = key | {"scorer": "exact", "scorer_version": "1", "scored_at": attempt["ended_at"]}
    rows: Rows = {
        "attempts": [attempt],
        "messages": list(_messages(key, said, call_ids)),
        "calls": calls,
        "scores": [score | answer],
    }
    return Trajectory(attempt_id, sample_id, task_id, rows)


def _attempt(
    key: dict[str, Any], sample_id: str, task_id: str, nth: int, calls: list[dict[str, Any]]
) -> dict[str, Any]:
    seconds = sum(call["latency_s"] for call in calls)
    return key | {
        "run_id": RUN,
        "sample_id": sample_id,
        "benchmark": BENCHMARK,
        "task_id": task_id,
        "trial": nth // 500,
        "attempt": 1,
        "model": MODEL,
        "engine_id": "engine:00000000000000aa",
        "policy": POLICY,
        "concurrency": CONCURRENCY,
        "repeat": 0,
        "status": "ok",
        "stop_reason": "answered",
        "error_type": None,
        "started_at": calls[0]["sent_at"],
        "ended_at": calls[-1]["ended_at"],
        "working_s": seconds,
        "held_s": 0.0,
        "steps": CALLS,
        "calls": CALLS,
        "tool_calls": CALLS - 1,
        "prompt_tokens": sum(call["prompt_tokens"] for call in calls),
        "cached_tokens": sum(call["cached_tokens"] for call in calls),
        "completion_tokens": sum(call["completion_tokens"] for call in calls),
        "cost_usd": sum(call["cost_usd"] for call in calls),
        "answer": str(nth % 97),
        "score": float(nth % 3 == 0),
        "correct": nth % 3 == 0,
    }


def _messages(
    key: dict[str, Any], said: list[str], call_ids: list[str]
) -> Iterator[dict[str, Any]]:
    yield key | {"position": 0, "role": "user", "content": said[0], "tool_calls": []}
    for turn, call_id in enumerate(call_ids):
        text, last = said[2 * turn + 1], turn == CALLS - 1
        place, named = 2 * turn + 1, {"id": f"call_{call_id[:8]}", "name": "search"}
        asked = [] if last else [named | {"arguments": json.dumps({"query": text[:60]})}]
        row = {"position": place, "role": "assistant", "content": text[60:] + text[:60]}
        yield key | row | {"tool_calls": asked, "call_id": call_id}
        if not last:
            result = {"position": place + 1, "role": "tool", "content": _result(said[place + 1])}
            yield key | result | {"tool_calls": [], "tool_call_id": named["id"], "name": "search"}


def _result(text: str) -> str:
    """A search's answer of `TEXT_BYTES` characters, as JSON."""
    size = TEXT_BYTES // RESULTS
    found = []
    for nth in range(RESULTS):
        piece = text[nth * size : (nth + 1) * size]
        found.append({"id": f"doc-{sum(piece.encode()) % 9973}", "score": 0.9 - nth / 10})
        frame = len(json.dumps(found[-1] | {"text": ""})) + 2
        found[-1]["text"] = piece[frame:]
    return json.dumps(found).ljust(TEXT_BYTES)[:TEXT_BYTES]


def _calls(
    key: dict[str, Any], call_ids: list[str], started: datetime, times: list[float]
) -> Iterator[dict[str, Any]]:
    sent = started
    for step, (call_id, seconds) in enumerate(zip(call_ids, times, strict=True)):
        prompt = 700 + step * 550
        ended = sent + timedelta(seconds=seconds)
        row = {"call_id": call_id, "policy": POLICY, "concurrency": CONCURRENCY, "step": step}
        row |= {"role": "orchestrator", "model": MODEL, "endpoint": "engine:00000000000000aa"}
        row |= {"sent_at": sent, "admitted_at": sent, "first_token_at": None, "ended_at": ended}
        row |= {"held_s": 0.0, "ttft_s": seconds / 10, "latency_s": seconds}
        row |= {"prompt_tokens": prompt, "cached_tokens": prompt - 550, "completion_tokens": 250}
        row |= {"finish_reason": "stop" if step == CALLS - 1 else "tool_calls", "status": "ok"}
        row |= {"http_status": 200, "retry": 0, "cost_usd": prompt * 2e-7}
        row |= {"params": '{"temperature": 0.7, "max_tokens": 1024}', "prompt_hash": call_id[:16]}
        yield key | row
        sent = ended + timedelta(seconds=0.05)
