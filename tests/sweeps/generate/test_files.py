"""Tests of lines of replies, and of merging chunks: only chunks of these rows with the same
settings."""

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.generate.test_work import request_of
from tutti.errors import UsageError
from tutti.tasks.sweeps.generate import check_written, merge_chunks
from tutti.tasks.sweeps.generate.output import reply_fields
from tutti.tasks.sweeps.generate.request import write_whole

ROWS = [{"question": str(number)} for number in range(3)]


def found(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return an attempt as read from the store."""
    empty: dict[str, Any] = {
        "reasoning": None,
        "tool_calls": [],
        "tool_call_id": None,
        "name": None,
    }
    said = [{**empty, "call_id": None, "content": "", **each} for each in messages]
    row = {"messages": said, "completion_tokens": 5, "prompt_tokens": 10, "tool_calls": 0}
    return row | {"finish_reason": "stop", "error_type": None, "error_message": None} | fields


def test_a_reply_and_its_reasoning() -> None:
    asked = {"role": "user", "content": "?"}
    said = {"role": "assistant", "content": "Yes", "reasoning": "Hm", "call_id": "c1"}
    assert reply_fields(found(asked, said), "generation") == {
        "generation": "Yes",
        "num_generated_tokens": 5,
        "num_input_tokens": 10,
        "finish_reason": "stop",
        "reasoning_content": "Hm",
    }


def test_reasoning_is_split_as_nemo_skills_splits_it() -> None:
    """The answer is the text after the last named tag, stripped; reasoning without an end has no
    answer."""
    said = {"role": "assistant", "content": "a</think>b</think>\n Yes \n", "call_id": "c1"}
    fields = reply_fields(found(said), "answer", "</think>")
    assert (fields["answer"], fields["_answer_finished_thinking"]) == ("Yes", True)
    assert fields["_full_answer"] == said["content"]
    assert fields["reasoning_content"] == "a</think>b"
    fields = reply_fields(found(said), "answer", "</thought>")
    assert (fields["answer"], fields["_answer_finished_thinking"]) == ("", False)
    assert fields["_full_answer"] == said["content"]


@pytest.mark.parametrize(
    ("message", "whole", "has_ended"),
    [
        ({"content": "<think>a</think>"}, "<think>a</think>", True),
        ({"content": "<think>a"}, "<think>a", False),
        ({"content": ""}, "", False),
        ({"content": "", "reasoning": "a"}, "a", False),
        ({"content": "Yes", "reasoning": "a"}, "a</think>Yes", True),
    ],
)
def test_a_thought_has_ended_where_the_tag_is(
    message: dict[str, str], whole: str, has_ended: bool
) -> None:
    """If nothing follows the tag, the answer is empty. Reasoning separated by the endpoint has
    ended if there is an answer."""
    fields = reply_fields(found({"role": "assistant", "call_id": "c1", **message}), "a", "</think>")
    assert fields["a"] == ("Yes" if message["content"] == "Yes" else "")
    assert (fields["_full_a"], fields["_a_finished_thinking"]) == (whole, has_ended)


def test_reasoning_that_starts_a_reply_is_apart_by_default() -> None:
    """The result is as if the endpoint had separated it; `off` leaves the text unchanged."""
    said = {"role": "assistant", "content": "<think>Hm</think>\nYes", "call_id": "c1"}
    fields = reply_fields(found(said), "answer")
    assert (fields["answer"], fields["reasoning_content"]) == ("Yes", "Hm")
    assert "_full_answer" not in fields
    fields = reply_fields(found(said), "answer", "off")
    assert fields["answer"] == said["content"] and "reasoning_content" not in fields


def test_whole_files_have_the_mark_of_nemo_skills(tmp_path: Path) -> None:
    """A chunk's marker is removed with the chunk."""
    request = request_of(tmp_path, ROWS, samples=1, chunks=2, chunk=0)
    for chunk, rows in ((0, ROWS[:1]), (1, ROWS[1:])):
        write_chunk(request.path_of(0, chunk), rows)
    request.mark_done()
    names = {path.name for path in request.out.glob("*.done")}
    assert names == {"output-rs0_chunk_0.jsonl.done", "output-rs0_chunk_1.jsonl.done"}
    merge_chunks(request, 3)
    request.mark_done()
    assert [path.name for path in request.out.glob("*.done")] == ["output-rs0.jsonl.done"]


def test_no_reply_is_an_error_in_the_row() -> None:
    """An assistant message of the prompt is no reply."""
    given = {"role": "assistant", "content": "earlier"}
    fields = reply_fields(found(given, error_type="context_exceeded", error_message="long"), "g")
    assert (fields["g"], fields["error"], fields["detailed_error"]) == (
        "",
        "context_exceeded",
        "long",
    )


def test_a_conversation_numbers_its_calls() -> None:
    """Engines generate new ids, but a line must be reproducible."""
    call = {"id": "chatcmpl-x7", "name": "python", "arguments": "{}"}
    asks = {"role": "assistant", "tool_calls": [call], "call_id": "c1"}
    told = {"role": "tool", "content": "4", "tool_call_id": "chatcmpl-x7", "name": "python"}
    said = {"role": "assistant", "content": "Four", "call_id": "c2"}
    fields = reply_fields(found({"role": "user"}, asks, told, said, tool_calls=1), "generation")
    assert (fields["generation"], fields["num_tool_calls"]) == ("Four", 1)
    first, second, third = fields["conversation"]
    assert first["tool_calls"][0]["id"] == second["tool_call_id"] == "call-0"
    assert third == {"role": "assistant", "content": "Four"}


def write_chunk(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write lines with replies."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row | {"generation": "x"}) + "\n" for row in rows))


def test_chunks_merge_when_all_are_there(tmp_path: Path) -> None:
    """Lines are in the order of the rows; the chunks are removed."""
    request = request_of(tmp_path, ROWS, samples=1, chunks=2, model=None)
    write_chunk(request.path_of(0, 1), ROWS[1:])
    assert merge_chunks(request, 3) == ([], [request.path_of(0, 0)])
    write_chunk(request.path_of(0, 0), ROWS[:1])
    assert merge_chunks(request, 3) == ([request.path_of(0)], [])
    lines = [json.loads(line) for line in request.path_of(0).read_text().splitlines()]
    assert [line["question"] for line in lines] == ["0", "1", "2"]
    assert [path.name for path in request.out.iterdir()] == ["output-rs0.jsonl"]
    assert merge_chunks(request, 3) == ([], [])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[1:2], "has 1 lines for 2 rows"),
        ([ROWS[2], ROWS[1]], r"chunk_1\.jsonl:1: question: is not that of row 2 of"),
    ],
)
def test_a_chunk_of_other_rows_is_not_merged(tmp_path: Path, rows: Any, words: str) -> None:
    request = request_of(tmp_path, ROWS, samples=1, chunks=2, chunk=0)
    write_chunk(request.path_of(0, 0), ROWS[:1])
    write_chunk(request.path_of(0, 1), rows)
    with pytest.raises(UsageError, match=words):
        merge_chunks(request, 3)
    assert not request.path_of(0).exists()


def test_chunks_of_other_settings_are_not_merged(tmp_path: Path) -> None:
    request = request_of(tmp_path, ROWS, samples=1, chunks=2, chunk=0)
    for chunk, rows, temperature in ((0, ROWS[:1], 0.7), (1, ROWS[1:], 1.0)):
        write_chunk(request.path_of(0, chunk), rows)
        kept = {"settings": {"temperature": temperature}, "parts": []}
        (request.out / f"generate_chunk_{chunk}.json").write_text(json.dumps(kept))
    with pytest.raises(UsageError, match="other settings, so their chunks are not merged: temp"):
        merge_chunks(request, 3)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: text[:60], "has 2 lines for 3 rows; remove it"),
        (lambda text: text.replace('"question": "1"', '"question": "4"'), ":2: question: is not"),
        (lambda text: text.replace("}\n", "\n", 1), ":1: not JSON"),
        (lambda text: text.replace('"generation"', '"gen"', 1), ":1: generation: absent"),
        (lambda text: "[" * 100_000 + text[text.index("\n") :], ":1: not JSON"),
    ],
)
def test_a_cut_or_edited_file_is_not_taken_for_a_whole_one(
    tmp_path: Path, edit: Any, words: str
) -> None:
    """A reply may contain a Unicode line separator, which does not end its line."""
    request = request_of(tmp_path, ROWS, samples=1)
    path = request.path_of(0)
    path.parent.mkdir(parents=True)
    lines = [{**row, "generation": "a\u2028b"} for row in ROWS]
    path.write_text("".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in lines), "utf-8")
    check_written(request, len(ROWS))
    path.write_text(edit(path.read_text("utf-8")), "utf-8")
    with pytest.raises(UsageError, match=words):
        check_written(request, len(ROWS))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match=r"cannot write .*taken/out/rows\.jsonl: Not a directory"):
        write_whole(tmp_path / "taken" / "out" / "rows.jsonl", ["{}"])


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    def lines() -> Iterator[str]:
        yield "{}"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"rows\.jsonl"):
        write_whole(tmp_path / "rows.jsonl", lines())
    assert not list(tmp_path.iterdir())
