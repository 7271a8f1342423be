"""Tests of lines and fields of foreign files: broken parts are reported, the rest is read."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.exchange.base import fields as reading
from tutti.tasks.exchange.base.chat import message_rows, tool_runs
from tutti.tasks.exchange.base.fields import (
    INTEGER,
    LOGPROBS,
    TOKENS,
    Fields,
    Kind,
    RecordRefused,
    document,
    records,
    take,
)
from tutti.tasks.exchange.base.imported import ImportIssue


def read(path: Path, data: bytes) -> tuple[list[tuple[int | None, Any]], list[str]]:
    """Return the lines with their objects, and the issues as text without the file name."""
    path.write_bytes(data)
    lines: list[tuple[int | None, Any]] = []
    problems: list[ImportIssue] = []
    for found in records(path):
        if isinstance(found, ImportIssue):
            problems.append(found)
        else:
            lines.append((found.line, found.data))
            problems += found.problems
    return lines, [str(p).removeprefix(str(path)) for p in problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file to read."""
    return tmp_path / "f.jsonl"


def fields(**data: Any) -> Fields:
    """Return a record of line 3 of file f."""
    return Fields(Path("f"), 3, data)


KINDS: dict[str, Kind[Any]] = {"integer": INTEGER, "integers": TOKENS, "numbers": LOGPROBS}
"""Kinds of values that have no method of their own."""


def value_of(record: Fields, kind: str, name: str) -> Any:
    """Return the field `name`, read as `kind`."""
    return record.read(name, KINDS[kind]) if kind in KINDS else getattr(record, kind)(name)


def test_objects_come_with_their_line_numbers(path: Path) -> None:
    """Blank lines are counted and skipped; a byte order mark and CR LF are accepted."""
    data = b'\xef\xbb\xbf{"a": 1}\r\n\n   \n{"a": "\xc3\xa9"}'
    assert read(path, data) == ([(1, {"a": 1}), (4, {"a": "é"})], [])


@pytest.mark.parametrize(
    "line, reason",
    [
        (b'{"a": 1', "is not JSON"),
        (b"[1, 2]", "[1, 2] is not a JSON object"),
        (b'"text"', "'text' is not a JSON object"),
        (b"null", "None is not a JSON object"),
        (b'{"a": "\xff"}', "can't decode byte 0xff"),
        (b'{"a": 1} {"b": 2}', "Extra data"),
        (b"[" * 100_000, "is not JSON that can be read"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", "Recursion limit reached"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "is not JSON"),
    ],
)
def test_a_broken_line_is_named_and_the_others_are_read(
    path: Path, line: bytes, reason: str
) -> None:
    lines, problems = read(path, b'{"a": 0}\n' + line + b'\n{"a": 2}\n')
    assert lines == [(1, {"a": 0}), (3, {"a": 2})]
    assert len(problems) == 1
    assert problems[0].startswith(":2: ")
    assert reason in problems[0]


def test_what_json_and_utf8_lack_is_replaced_and_named(path: Path) -> None:
    """Python's writers put NaN and Infinity into JSON, and half surrogate pairs into text."""
    lines, problems = read(path, b'{"a": {"b": [1, NaN]}, "c": -Infinity, "d": "x\\ud800y"}')
    assert lines == [(1, {"a": {"b": [1, None]}, "c": None, "d": "x\ufffdy"})]
    reason = "holds NaN, Infinity or half a surrogate pair, taken as null and U+FFFD"
    assert problems == [f":1: {name}: {reason}" for name in "acd"]


def test_a_line_without_end_does_not_fill_the_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 50)
    monkeypatch.setattr(reading, "SKIPPED_BYTES", 7)
    lines, problems = read(path, b'{"a": "' + b"x" * 500 + b'"}\n{"a": 1}\n' + b"y" * 60)
    assert lines == [(2, {"a": 1})]
    assert [p.split(" ")[0] for p in problems] == [":1:", ":3:"]


def test_gzip_is_told_by_its_bytes(path: Path) -> None:
    packed = gzip.compress(b"".join(b'{"a": %d}\n' % n for n in range(10_000)))
    lines, problems = read(path, packed)
    assert (len(lines), problems) == (10_000, [])
    lines, problems = read(path, packed[: len(packed) // 2])
    assert 0 < len(lines) < 10_000
    assert "cannot be read from here on" in problems[0]
    lines, problems = read(path, packed[:20] + b"\0\0\0" + packed[23:])
    assert len(problems) == 1


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        (problem,) = records(path)
        assert isinstance(problem, ImportIssue) and "cannot be read" in problem.reason
        assert isinstance(document(path), ImportIssue)


def test_a_document_has_no_lines(path: Path) -> None:
    path.write_text('{\n"a": NaN}')
    found = document(path)
    assert isinstance(found, Fields)
    assert [problem.line for problem in found.problems] == [None]


@given(st.binary())
def test_no_bytes_make_the_reader_fail(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(data)
    assert len(list(records(path))) <= data.count(b"\n") + 1


@pytest.mark.parametrize(
    "kind, value, wanted",
    [
        ("text", 1, "text"),
        ("identity", "", "a name"),
        ("identity", "a\0b", "a name"),
        ("identity", True, "a name"),
        ("identity", 1.5, "a name"),
        ("flag", 1, "true or false"),
        ("flag", "true", "true or false"),
        ("integer", 2**63, "a whole number"),
        ("integer", True, "a whole number"),
        ("count", -1, "a whole number from 0 on"),
        ("count", "3", "a whole number from 0 on"),
        ("count", 1.5, "a whole number from 0 on"),
        ("count", 1e30, "a whole number from 0 on"),
        ("number", "0.5", "a finite number"),
        ("number", 10**400, "a finite number"),
        ("number", False, "a finite number"),
        ("amount", -0.1, "a finite number from 0 on"),
        ("epoch", 1e15, "a time in seconds since 1970"),
        ("epoch", -5, "a time in seconds since 1970"),
        ("time", "yesterday", "a time in ISO 8601"),
        ("time", "0001-01-01T00:00:00+10:00", "a time in ISO 8601"),
        ("array", {}, "a list"),
        ("inner", [], "an object"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(kind: str, value: Any, wanted: str) -> None:
    """The value is left out, not guessed, and the issue names file, line, field and value."""
    record = fields(a={"b": value})
    found = value_of(record.inner("a"), kind, "b")
    assert not (found.data if isinstance(found, Fields) else found)
    (problem,) = record.problems
    assert str(problem).startswith("f:3: a.b: ")
    assert problem.reason.endswith(f"is not {wanted}")


@pytest.mark.parametrize(
    "kind, value, found",
    [
        ("text", "", ""),
        ("identity", 7, "7"),
        ("identity", "x", "x"),
        ("count", 12.0, 12),
        ("number", 3, 3.0),
        ("flag", False, False),
        ("epoch", 0, None),
        ("epoch", 1.5, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ("time", "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("time", "2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("integers", [1, 2], [1, 2]),
        ("numbers", [1, -0.5], [1.0, -0.5]),
        ("json", {"a": [1]}, '{"a": [1]}'),
    ],
)
def test_a_value_of_the_right_type_is_taken(kind: str, value: Any, found: Any) -> None:
    record = fields(a=value, none=None)
    assert value_of(record, kind, "a") == found
    assert not value_of(record, kind, "none")
    assert not value_of(record, kind, "absent")
    assert record.problems == []


@pytest.mark.parametrize("value", [[1, "2"], [1, -1], [2**31], [True], [1.0]])
def test_a_list_of_tokens_is_whole_or_not_taken(value: list[Any]) -> None:
    """The issue names the position in the list."""
    record = fields(a=value)
    assert record.read("a", TOKENS) is None
    assert record.problems[0].field == f"a.{len(value) - 1}"


def test_log_probabilities_are_finite_numbers_of_32_bits() -> None:
    """A value that the store's column cannot hold is reported."""
    record = fields(a=[-0.1, 1e39], b=[None], c=["x"])
    assert [record.read(name, LOGPROBS) for name in "abc"] == [None] * 3
    assert [problem.field for problem in record.problems] == ["a.1", "b.0", "c.0"]


def test_a_record_without_what_it_needs_is_refused() -> None:
    """`take` returns its issues and continues."""

    def of(record: Fields) -> list[ImportIssue]:
        record.needed("id", record.identity("id"))
        return [ImportIssue(Path("taken"), None, "", "")]

    found = list(
        take([fields(), ImportIssue(Path("p"), 1, "", "x"), fields(id=True), fields(id=1)], of)
    )
    assert [str(item) for item in found if isinstance(item, ImportIssue)] == [
        "f:3: id: is missing; the record is not taken",
        "p:1: x",
        "f:3: id: True is not a name",
        "f:3: id: is needed; the record is not taken",
        "taken: ",
    ]


def test_messages_come_in_every_form_of_tool_calls() -> None:
    """The forms are OpenAI's, flat calls, JSON text, arguments as an object, and items of the
    responses API."""
    calls = [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "2", "name": "g", "arguments": {"y": 2}},
        json.dumps({"id": "3", "name": "h", "arguments": ""}),
    ]
    record = fields(
        m=[
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "two"}]},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "4", "name": "k", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "4", "output": "four"},
            {"type": "message", "content": [{"type": "output_text", "text": "done"}]},
        ]
    )
    rows = message_rows(record, "m")
    assert record.problems == []
    assert rows[0]["tool_calls"] == [
        {"id": "1", "name": "f", "arguments": '{"x": 1}'},
        {"id": "2", "name": "g", "arguments": '{"y": 2}'},
        {"id": "3", "name": "h", "arguments": ""},
    ]
    assert [row["role"] for row in rows[1:]] == [
        "tool",
        "assistant",
        "assistant",
        "tool",
        "assistant",
    ]
    assert rows[2]["reasoning"] == "hm"
    assert rows[5]["content"] == "done"
    assert tool_runs(rows, []) == [
        {"step": 0, "result": "two", "name": "g", "arguments": '{"y": 2}'},
        {"step": 0, "result": "four", "name": "k", "arguments": "{}"},
    ]


def test_content_with_an_image_is_kept_as_json() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]
    rows = message_rows(fields(m=[{"role": "user", "content": parts}]), "m")
    assert json.loads(rows[0]["content"]) == parts
    rows = message_rows(fields(m=[{"role": "user", "content": [parts[0], "b"]}]), "m")
    assert rows[0]["content"] == "a\nb"


@pytest.mark.parametrize(
    "messages, field",
    [
        (1, "m"),
        (["x"], "m.0"),
        ([{"content": "x"}], "m.0.role"),
        ([{"role": 1.5, "content": "x"}], "m.0.role"),
        ([{"role": "user", "content": 5}], "m.0.content"),
    ],
)
def test_a_message_that_cannot_be_read_refuses_the_record(messages: Any, field: str) -> None:
    record = fields(m=messages)
    with pytest.raises(RecordRefused):
        message_rows(record, "m")
    assert record.problems[-1].field == field


def test_a_tool_call_that_cannot_be_read_is_left_out() -> None:
    calls = [{"id": "1"}, 5, "{", {"id": "2", "name": "f", "arguments": "{}"}]
    record = fields(m=[{"role": "assistant", "content": "x", "tool_calls": calls}])
    (row,) = message_rows(record, "m")
    assert [call["name"] for call in row["tool_calls"]] == ["f"]
    assert [p.field for p in record.problems] == [
        "m.0.tool_calls.0.name",
        "m.0.tool_calls.1",
        "m.0.tool_calls.2",
    ]
