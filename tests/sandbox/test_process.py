"""Tests of reading a program's streams: pieces between markers, bounds, and returned rest."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.sandbox import SandboxResult
from tutti.tasks.sandbox.process import Pipe, StreamCapture
from tutti.tasks.sandbox.run import _Reader
from tutti.tasks.sandbox.values import ProgramOutput, compose, make_result

MARK = b"\0mark\0"
NEAR = st.lists(st.sampled_from([b"a", b"\0", b"\0mark", b"mark\0", b"bc" * 9])).map(b"".join)


def pieces(chunks: list[bytes], count: int) -> list[tuple[bool, str]]:
    """Return the pieces that `count` reads up to the marker give for a stream that arrives in these
    chunks."""

    async def read() -> list[tuple[bool, str]]:
        stream = asyncio.StreamReader()
        pipe = Pipe(stream, lambda: None)
        found = []
        feeding = asyncio.ensure_future(feed(stream))
        for _ in range(count):
            kept = StreamCapture(10_000)
            found.append((await pipe.until(MARK, kept), kept.text()))
        await feeding
        return found

    async def feed(stream: asyncio.StreamReader) -> None:
        for chunk in chunks:
            stream.feed_data(chunk)
            await asyncio.sleep(0)
        stream.feed_eof()

    return asyncio.run(read())


@given(st.lists(NEAR, min_size=1, max_size=4), st.integers(1, 9))
def test_a_marker_is_found_however_the_stream_is_cut(parts: list[bytes], size: int) -> None:
    whole = MARK.join(parts)
    chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
    expected = whole.split(MARK)
    found = pieces(chunks, len(expected))
    assert [text for _, text in found] == [one.decode() for one in expected]
    assert [ended for ended, _ in found] == [True] * (len(expected) - 1) + [False]


async def test_what_follows_a_marker_is_not_lost() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b"x" + MARK + b"oyz")
    stream.feed_eof()
    pipe, kept = Pipe(stream, lambda: None), StreamCapture(10)
    assert await pipe.until(MARK, kept) and kept.text() == "x"
    assert await pipe.exactly(1) == b"o"
    assert not await pipe.until(None, kept) and kept.text() == "xyz"
    assert await pipe.exactly(3) == b""


async def test_a_flood_is_told_of() -> None:
    stream, told = asyncio.StreamReader(), list[int]()
    stream.feed_data(bytes(17 * 2**20))
    stream.feed_eof()
    kept = StreamCapture(100)
    await Pipe(stream, lambda: told.append(1)).until(None, kept)
    assert told and len(kept.text()) == 100


@given(st.lists(st.binary(max_size=9)), st.integers(0, 20), st.booleans())
def test_the_first_or_the_last_bytes_are_kept(parts: list[bytes], most: int, end: bool) -> None:
    kept, whole = StreamCapture(most, keep_end=end), b"".join(parts)
    for part in parts:
        kept.add(part)
    expected = whole[max(0, len(whole) - most) :] if end else whole[:most]
    assert kept.text() == expected.decode("utf-8", "replace")


@given(st.text(max_size=300), st.text(max_size=300), st.integers(0, 200))
def test_output_is_never_longer_than_its_bound(out: str, errors: str, most: int) -> None:
    both = compose(out, errors, most)
    assert len(both) <= most and (len(out + errors) > most or both == out + errors)
    result = make_result(ProgramOutput(out, errors, "error"), 1.0, most, restarted="new session")
    assert len(result.output) <= most and len(result.stdout) <= most and len(result.stderr) <= most


def test_the_exception_is_the_tracebacks_last_line() -> None:
    trace = 'Traceback (most recent call last):\n  File "<program>", line 1\nValueError: a\nb\n'
    assert SandboxResult("", "error", 1.0, stderr="noise\n" + trace).exception == "ValueError: a"
    assert SandboxResult("", "ok", 1.0, stderr=trace).exception == ""
    chained = trace + "\nDuring handling of the above exception, another:\n\n" + trace
    assert SandboxResult("", "error", 1.0, stderr=chained).exception == "ValueError: a"


@pytest.mark.parametrize("turns", range(5))
async def test_a_cancel_that_comes_with_the_start_is_not_lost(turns: int) -> None:
    """Python 3.11's `wait_for` swallows the cancellation, and the program would run to its own
    limit."""
    reader = object.__new__(_Reader)
    reader.ready_at, reader._ready = None, asyncio.Event()
    task = asyncio.create_task(reader.started())
    await asyncio.sleep(0.01)
    reader._ready.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.cancel():  # it was not over
        with pytest.raises(asyncio.CancelledError):
            await task
