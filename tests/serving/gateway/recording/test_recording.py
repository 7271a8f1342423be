"""Tests that calls become rows quickly, in each program's order, and none is lost."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import BufferedWriter
from tutti.storage import catalog as cat
from tutti.tasks.serving.gateway.calls import transcripts
from tutti.tasks.serving.gateway.calls.record import MANY_BYTES, MANY_PIECES, CallRecord
from tutti.tasks.serving.gateway.calls.request import CallRequest
from tutti.tasks.serving.gateway.calls.transcripts import Transcripts
from tutti.tasks.serving.gateway.recording.recorder import AT_ONCE, CallRecorder, ProgramAttempts
from tutti.tasks.serving.scheduling import ReasonCode

LONG = "x" * MANY_BYTES
PANDAS = """
import sys
from tutti.tasks.serving.gateway.command import WithoutPandas
sys.meta_path.insert(0, WithoutPandas)
from tutti import storage
from tutti.storage.write.encode import to_arrow
to_arrow("calls", [{"call_id": "c", "latency_s": 0.5, "prompt_spans": [{"first": 0, "last": 1}]}])
print("pandas" in sys.modules)
"""


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def recorder_of(
    writer: storage.BufferedWriter, transcripts: Transcripts, catalog: storage.Catalog
) -> CallRecorder:
    return CallRecorder(writer, transcripts, ProgramAttempts(catalog, writer, transcripts, "", ""))


def ended(nth: int, messages: Any, answer: str = "", program: str = "agent") -> CallRecord:
    """Return a call whose response came in one piece, or in many if `answer` has many words."""
    body = {"messages": messages}
    request = CallRequest(
        path=b"/v1/chat/completions",
        kind="chat/completions",
        headers=[],
        body=body,
        raw=orjson.dumps(body),
        program=program,
        is_anonymous=False,
        call_id=f"c{nth}",
        cell="cell:1",
        step=nth,
        role="orchestrator",
        keeps_messages=False,
        model="m",
        stream=False,
    )
    record = CallRecord(request, status="ok", streamed=" " in answer)
    words = answer.split(" ")
    if record.streamed:
        deltas = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
        record.answered = [b"data: %b\n\n" % orjson.dumps(delta) for delta in deltas]
    elif answer:
        record.whole = {"choices": [{"index": 0, "message": said("assistant", answer)}]}
    return record


class Held(BufferedWriter):
    """Writer whose thread commits only when the test allows it."""

    def __init__(self, catalog: storage.Catalog, **options: Any) -> None:
        self.may_commit = threading.Event()
        super().__init__(catalog, commit_s=0.01, before=self.may_commit.wait, **options)


@pytest.fixture
def writer(catalog: storage.Catalog) -> Iterator[Held]:
    made = Held(catalog)
    with made:
        yield made
        made.may_commit.set()


def recorded(catalog: storage.Catalog, program: str = "agent") -> list[str]:
    rows = storage.query(f"select role, content from transcript('{program}')", catalog.home)
    return [f"{row['role'][0]}:{row['content'][:20]}" for row in rows]


def test_a_quick_call_is_rows_when_it_has_ended(
    catalog: storage.Catalog, writer: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it waits for the writer's thread, so its body can be freed."""
    recording = recorder_of(writer, Transcripts(catalog.home), catalog)
    monkeypatch.setattr(writer, "add_made", None)
    recording.keep(ended(1, [said("user", "a")], "b"))
    recording.keep(ended(2, [said("user", "a"), said("assistant", "b"), said("user", "c")], "d"))
    writer.may_commit.set()
    writer.flush()
    assert recorded(catalog) == ["u:a", "a:b", "u:c", "a:d"]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(ended(2, [said("user", "a"), said("user", LONG)], "d"), id="long"),
        pytest.param(
            ended(2, [said("user", "a"), said("user", "c")], "d " * (2 * MANY_PIECES)),
            id="many pieces",
        ),
    ],
)
def test_calls_after_one_that_takes_long_keep_its_programs_order(
    catalog: storage.Catalog, writer: Held, second: CallRecord
) -> None:
    """The third prompt repeats the response of the second call, which is processed later: it is
    stored once."""
    recording = recorder_of(writer, Transcripts(catalog.home), catalog)
    first = ended(1, [said("user", "a")], "b")
    answer = said("assistant", "d" if not second.streamed else "d" * 2 * MANY_PIECES)
    third = ended(3, [*second.request.body["messages"], answer, said("user", "e")], "f")
    for record in (first, second, third):
        recording.keep(record)
    other = ended(4, [said("user", "other")], "g", program="other")
    recording.keep(other)
    writer.may_commit.set()
    writer.flush()
    rows = storage.query("select content from prompt('c3')", catalog.home)
    wanted = [message["content"] for message in third.request.body["messages"]]
    assert [row["content"] for row in rows] == wanted
    assert len(recorded(catalog)) == len({*recorded(catalog)}), "none is stored twice"
    assert recorded(catalog, "other") == ["u:other", "a:g"]
    fourth = ended(5, [*third.request.body["messages"], said("assistant", "f")], "h")
    recording.keep(fourth)
    writer.flush()
    assert recorded(catalog)[-1] == "a:h"


def test_a_program_that_began_before_asks_the_store_on_the_writers_thread(
    catalog: storage.Catalog, writer: Held
) -> None:
    request: list[str] = []

    class Noted(Transcripts):
        def _next_position(self, program: str) -> int:
            request.append(threading.current_thread().name)
            return 7

    recording = recorder_of(writer, Noted(catalog.home), catalog)
    prompt = [said("user", "a"), said("assistant", "b"), said("user", "c")]
    recording.keep(ended(1, prompt, "d"))
    recording.keep(ended(2, [*prompt, said("assistant", "d"), said("user", "e")], "f"))
    writer.may_commit.set()
    writer.flush()
    assert request == ["store writer"]
    assert recorded(catalog) == ["u:a", "a:b", "u:c", "a:d", "u:e", "a:f"]


def test_programs_beyond_the_memory_for_messages_are_stored_again_in_full(
    catalog: storage.Catalog, writer: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that never end cannot fill a gateway's memory, and none of their messages are
    lost."""
    size = storage.Conversation("agent").size
    monkeypatch.setattr(transcripts, "MAX_BYTES", 3 * size)
    recording = recorder_of(writer, Transcripts(catalog.home), catalog)
    recording.keep(ended(1, [said("user", "a")], "b"))
    recording.keep(ended(2, [said("user", "x")], "y", program="other"))
    recording.keep(ended(3, [said("user", "x")], "y", program="third"))
    writer.may_commit.set()
    writer.flush()
    recording.keep(ended(4, [said("user", "a"), said("assistant", "b"), said("user", "c")], "d"))
    writer.flush()
    assert recorded(catalog) == ["u:a", "a:b", "u:a", "a:b", "u:c", "a:d"]


def test_what_cannot_be_recorded_is_counted_and_costs_no_other(
    catalog: storage.Catalog, writer: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the call, which has succeeded, nor the other rows are affected."""
    recording = recorder_of(writer, Transcripts(catalog.home), catalog)
    real = CallRecord.rows

    def rows(record: CallRecord, transcripts: Transcripts) -> Any:
        if record.request.step in (2, 3):
            raise ValueError("odd")
        return real(record, transcripts)

    monkeypatch.setattr(CallRecord, "rows", rows)
    for nth, text in ((1, "a"), (2, "b"), (3, LONG), (4, "c")):
        recording.keep(ended(nth, [said("user", text)], "ok", program=f"p{nth}"))
    writer.may_commit.set()
    writer.flush()
    assert writer.dropped == 2
    assert "'c3'" in writer.last_error and "odd" in writer.last_error
    found = storage.query("select call_id from calls order by call_id", catalog.home)
    assert [row["call_id"] for row in found] == ["c1", "c4"]


def test_a_full_writer_leaves_no_program_waiting(catalog: storage.Catalog) -> None:
    """A refused call counts as ended: the program's next calls are processed at once again."""
    writer = Held(catalog, max_rows=1)
    with writer:
        recording = recorder_of(writer, Transcripts(catalog.home), catalog)
        for nth in range(1, 5):
            recording.keep(ended(nth, [said("user", LONG)]))
        assert writer.dropped == 3
        writer.may_commit.set()
        writer.flush()
        assert not recording._late


@pytest.mark.parametrize("is_over", [False, True])
def test_a_program_that_begins_while_the_queue_is_full_is_an_attempt_later(
    catalog: storage.Catalog, is_over: bool
) -> None:
    """The program becomes an attempt with its next call or its end; until then it is counted like
    the refused calls."""
    writer = Held(catalog, max_rows=4)
    with writer:
        transcripts = Transcripts(catalog.home)
        programs = ProgramAttempts(catalog, writer, transcripts, "mine", "passthrough")
        programs.open([])
        recording = CallRecorder(writer, transcripts, programs)
        while writer.add("gateway_events", {"event": "hold"}):
            pass
        before = writer.dropped
        first, second = (ended(nth, [said("user", "a")], "ok") for nth in (1, 2))
        for each in (first, second):
            each.request.cell = ""
        recording.keep(first)
        assert writer.dropped > before
        writer.may_commit.set()
        writer.flush()
        if not is_over:
            recording.keep(second)
            writer.flush()
        recording.keep(("agent", ReasonCode.RELEASED))
        writer.flush()
        assert not programs._open
        programs.close()
    rows = storage.query("select sweep, model, policy from results", catalog.home)
    assert rows == [{"sweep": "mine", "model": "m", "policy": "passthrough"}]
    (state,) = catalog.rows(sa.select(cat.attempt_states))
    assert (state["attempt_id"], state["state"]) == ("agent", "done")


def test_the_gateway_does_without_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PANDAS], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "False", done.stderr


def test_a_log_probability_that_is_null_costs_no_row(
    catalog: storage.Catalog, writer: Held
) -> None:
    recording = recorder_of(writer, Transcripts(catalog.home), catalog)
    record = ended(1, [said("user", "a")], "b")
    record.records_tokens = True
    content = [{"logprob": -0.5}, {"logprob": None}, {}, None]
    record.whole["choices"][0] |= {"token_ids": [1, 2, 3, 4], "logprobs": {"content": content}}
    recording.keep(record)
    writer.may_commit.set()
    writer.flush()
    (row,) = storage.query("select token_ids, logprobs from calls", catalog.home)
    assert row == {"token_ids": [1, 2, 3, 4], "logprobs": [-0.5, None, None, None]}
    assert writer.dropped == 0


async def test_a_call_that_breaks_the_recorder_stops_nothing(
    catalog: storage.Catalog, writer: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recorder_of(writer, Transcripts(catalog.home), catalog)
    real = recording.programs.take

    def take(record: CallRecord) -> None:
        if record.request.step == 1:
            raise KeyError("odd")
        real(record)

    monkeypatch.setattr(recording.programs, "take", take)
    for nth in (1, 2):
        recording.soon(ended(nth, [said("user", "a")], program=f"p{nth}"))
        async with asyncio.timeout(60):
            while recording._ended:
                await asyncio.sleep(0.001)
    writer.may_commit.set()
    await asyncio.to_thread(writer.flush)
    assert [row["call_id"] for row in storage.query("from calls", catalog.home)] == ["c2"]
    assert writer.dropped == 1 and "odd" in writer.last_error


async def test_ended_calls_are_kept_soon_and_all_of_them_before_a_flush(
    catalog: storage.Catalog, writer: Held
) -> None:
    """Ended calls are stored in order, not while a response waits to be sent; a flush stores the
    rest."""
    recording = recorder_of(writer, Transcripts(catalog.home), catalog)
    kept: list[int | None] = []
    recording.keep = lambda record: kept.append(record.request.step)  # type: ignore
    records = [ended(nth, [said("user", "a")]) for nth in range(3 * AT_ONCE)]
    for record in records:
        recording.soon(record)
    await asyncio.sleep(0)
    assert not kept
    async with asyncio.timeout(60):
        while not kept:
            await asyncio.sleep(0)
    assert len(kept) == AT_ONCE, "so many a turn"
    recording.catch_up()
    assert kept == list(range(len(records)))
    recording.soon(records[0])
    async with asyncio.timeout(60):
        while len(kept) == len(records):
            await asyncio.sleep(0.001)
    assert kept[-1] == 0
