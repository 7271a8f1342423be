"""Tests of exceptions at every step of recording during 500 calls: the rows of all other calls are
stored.

Each step, from an ended call to the response of the database, raises permanently for some calls or
some programs, or a few times for any. The result is checked by a reader's queries.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from tests.serving.gateway.recording.test_recording import LONG, ended, said
from tutti import storage
from tutti.storage import BufferedWriter, Conversation
from tutti.storage.write import batch, buffered, writer
from tutti.tasks.serving.gateway.calls import record
from tutti.tasks.serving.gateway.calls.record import MANY_PIECES, CallRecord
from tutti.tasks.serving.gateway.calls.transcripts import Transcripts
from tutti.tasks.serving.gateway.recording import recorder as programs
from tutti.tasks.serving.gateway.recording.recorder import CallRecorder, ProgramAttempts
from tutti.tasks.serving.scheduling import ReasonCode

PROGRAMS, STEPS = 50, 10
FLUSH_EVERY = 40
NAMES = [f"p{nth}" for nth in range(PROGRAMS)]
CALLS = {f"c{nth}": NAMES[nth % PROGRAMS] for nth in range(PROGRAMS * STEPS)}
BAD_CALLS = {call for call in CALLS if int(call[1:]) % 7 == 3}
BAD_PROGRAMS = {name for name in NAMES if int(name[1:]) % 7 == 3}
TIMES = 3

PROMPTS = """
select c.call_id, list(m.content order by c.nth, m.position) as texts
from (select call_id, attempt_id, unnest(prompt_spans) as span,
             generate_subscripts(prompt_spans, 1) as nth from calls) c
join messages m on m.attempt_id = c.attempt_id and m.position between span.first and span.last
group by c.call_id
"""

Fault = Callable[..., bool]


def breaks(
    patch: pytest.MonkeyPatch, owner: Any, name: str, is_due: Fault, error: BaseException
) -> None:
    """Make a function raise `error` whenever `is_due` is true for its arguments."""
    real = getattr(owner, name)

    def act(*given: Any, **named: Any) -> Any:
        if is_due(*given, **named):
            raise copy(error)  # each with a traceback of its own
        return real(*given, **named)

    patch.setattr(owner, name, act)


def a_few(times: int = TIMES) -> Fault:
    turns = iter([nth % 2 == 1 for nth in range(2 * times)])
    return lambda *_, **__: next(turns, False)


def has_bad_call(rows: Any) -> bool:
    ids = [row.get("call_id") for row in rows] if isinstance(rows, list) else []
    if not isinstance(rows, list) and "call_id" in rows.column_names:
        ids = rows["call_id"].to_pylist()
    return not BAD_CALLS.isdisjoint(ids)


Install = Callable[[pytest.MonkeyPatch, Any], None]
ODD = ValueError("odd")
BUSY = storage.StoreBusy("locked")


def in_observe(patch: pytest.MonkeyPatch, _: Any) -> None:
    """Raise after the conversation has assigned positions to the call's messages."""
    current: list[str] = []
    real = Conversation.observe

    def observe(self: Conversation, call_id: str, *given: Any, **named: Any) -> Any:
        current[:] = [call_id]
        return real(self, call_id, *given, **named)

    patch.setattr(Conversation, "observe", observe)
    breaks(patch, Conversation, "_row", lambda *_: current[0] in BAD_CALLS, ODD)


def unanswered(patch: pytest.MonkeyPatch, catalog: Any) -> None:
    real, is_due = catalog.transaction, a_few()

    @contextmanager
    def transaction() -> Iterator[sa.Connection]:
        with real() as connection:
            yield connection
        if is_due():
            raise storage.StoreError("server closed the connection unexpectedly")

    patch.setattr(catalog, "transaction", transaction)


def of_call(owner: Any, name: str, is_due: Fault, error: BaseException = ODD) -> Install:
    return lambda patch, _: breaks(patch, owner, name, is_due, error)


def bad_record(each: CallRecord, *_: Any) -> bool:
    return each.request.call_id in BAD_CALLS


COSTS_CALLS: dict[str, Install] = {
    "take": of_call(ProgramAttempts, "take", lambda _, each: bad_record(each)),
    "row": of_call(CallRecord, "_row", bad_record),
    "row, out of memory": of_call(CallRecord, "_row", bad_record, MemoryError()),
    "prompt": of_call(record, "read_context", lambda _, body, *__: body.get("is_bad", False)),
    "messages": of_call(Transcripts, "rows", lambda _, call, *__: call["call_id"] in BAD_CALLS),
    "observe": in_observe,
    "conversion": of_call(
        batch, "to_arrow", lambda name, rows, **_: name == "calls" and has_bad_call(rows)
    ),
    "write_part": of_call(
        writer, "write_part", lambda *given: given[1] == "calls" and has_bad_call(given[3])
    ),
    "store, for good": of_call(
        Transcripts, "rows", lambda _, call, *__: call["call_id"] == "c3", BUSY
    ),
}
"""Faults of some calls, for good: only these are lost. Where the disk refuses a call's rows, later
prompts that were made already refer to its messages."""

COSTS_ATTEMPTS: dict[str, Install] = {
    "begin": of_call(programs, "begin_program", lambda _, name, *__: name in BAD_PROGRAMS),
    "may_end": of_call(programs, "may_end", lambda _, name, *__: name in BAD_PROGRAMS),
    "tally": of_call(storage.ProgramTally, "row", lambda self, *_: self.attempt_id in BAD_PROGRAMS),
    "complete": of_call(programs, "end_program", lambda _, name, *__: name in BAD_PROGRAMS),
}
"""Faults of some programs, for good: of these at most the attempts are lost, no call is."""

COSTS_NOTHING: dict[str, Install] = {
    "store, in a maker": of_call(Transcripts, "_next_position", a_few(), BUSY),
    "store, at an end": of_call(programs, "may_end", a_few(), BUSY),
    "disk": of_call(writer, "write_part", a_few(), OSError(5, "Input/output error")),
    "full disk": of_call(writer, "write_part", a_few(), OSError(28, "No space left on device")),
    "commit": of_call(buffered, "commit_tables", a_few(), BUSY),
    "commit, unreachable": of_call(
        buffered, "commit_tables", a_few(), storage.StoreError("unreachable")
    ),
    "commit, a bug": of_call(buffered, "commit_tables", a_few(), ODD),
    "unanswered": unanswered,
    "settle": of_call(buffered, "settle", a_few(), storage.StoreError("unreachable")),
}
"""Faults that pass: nothing is lost."""


@dataclass
class Recording:
    """500 calls through a recorder, in the order in which they end."""

    catalog: storage.Catalog
    recorder: CallRecorder
    prompts: dict[str, list[str]] = field(default_factory=dict)
    """The texts of each call's prompt."""

    def run(self) -> None:
        """Let all calls and programs end; some calls take long, some programs began before."""
        dialogues: dict[str, list[Any]] = {name: [] for name in NAMES}
        for nth, (call_id, name) in enumerate(CALLS.items()):
            dialogue = dialogues[name]
            if not dialogue and int(name[1:]) % 5 == 1:
                dialogue += [said("user", "before"), said("assistant", "as well")]
            dialogue.append(said("user", f"{call_id}{LONG if nth % 23 == 11 else ''}"))
            answer = "yes " * (2 * MANY_PIECES) if nth % 11 == 5 else f"answer to {call_id}"
            each = ended(nth, list(dialogue), answer, program=name)
            each.request.cell, each.request.body["is_bad"] = "", call_id in BAD_CALLS
            self.prompts[call_id] = [message["content"] for message in dialogue]
            dialogue.append(said("assistant", answer))
            self.recorder.keep(each)
            if nth % FLUSH_EVERY == 0:
                self.flush()
        for name in NAMES:
            self.recorder.keep((name, ReasonCode.RELEASED))

    def flush(self) -> None:
        with suppress(storage.StoreError):
            self.recorder.writer.flush()

    def stored(self, sql: str) -> list[str]:
        return [str(next(iter(row.values()))) for row in storage.query(sql, self.catalog.home)]

    def check_calls(self, lost: set[str], has_prompts: bool = True) -> None:
        assert sorted(self.stored("select call_id from calls")) == sorted(CALLS.keys() - lost)
        positions = "select attempt_id || '/' || position from messages"
        found = self.stored(positions)
        assert len(found) == len(set(found)), "no position is given twice"
        rows = storage.query(PROMPTS, self.catalog.home) if has_prompts else []
        for row in rows:
            assert row["texts"] == self.prompts[row["call_id"]], row["call_id"]
        assert len(rows) == len(CALLS.keys() - lost) or not has_prompts


@pytest.fixture
def recording(catalog: storage.Catalog) -> Iterator[Recording]:
    """Yield the recorder of a gateway with a name; its writer commits on request."""
    with BufferedWriter(catalog, commit_s=60) as writer:
        transcripts = Transcripts(catalog.home)
        attempts = ProgramAttempts(catalog, writer, transcripts, "mine", "passthrough")
        attempts.open([])
        yield Recording(catalog, CallRecorder(writer, transcripts, attempts))
        writer.close()
        attempts.close()


@pytest.mark.parametrize("step", COSTS_CALLS)
def test_a_step_that_raises_for_some_calls_costs_these_alone(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Every row of the other calls is stored once, also those of the same program."""
    COSTS_CALLS[step](monkeypatch, recording.catalog)
    recording.run()
    for _ in range(buffered.TRIES):
        recording.flush()
    recording.recorder.writer.flush()
    lost = {"c3"} if step == "store, for good" else BAD_CALLS
    recording.check_calls(lost, has_prompts=step != "write_part")
    assert recording.recorder.writer.dropped >= len(lost)
    assert sorted(recording.stored("select attempt_id from attempts")) == sorted(NAMES)
    assert not recording.recorder._late


@pytest.mark.parametrize("step", COSTS_ATTEMPTS)
def test_a_step_that_raises_for_some_programs_costs_their_attempts_alone(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    COSTS_ATTEMPTS[step](monkeypatch, recording.catalog)
    recording.run()
    recording.recorder.writer.flush()
    recording.check_calls(set())
    found = recording.stored("select attempt_id from attempts")
    assert len(found) == len(set(found)) and set(NAMES) - BAD_PROGRAMS <= set(found)
    assert recording.recorder.writer.dropped >= len(BAD_PROGRAMS)


@pytest.mark.parametrize("step", COSTS_NOTHING)
def test_a_step_that_raises_for_a_while_costs_nothing(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """All calls and attempts are stored once, in the order in which they ended."""
    COSTS_NOTHING[step](monkeypatch, recording.catalog)
    recording.run()
    for _ in range(2 * TIMES):
        recording.flush()
    recording.recorder.writer.flush()
    recording.check_calls(set())
    assert sorted(recording.stored("select attempt_id from attempts")) == sorted(NAMES)
    assert recording.recorder.writer.dropped == 0
