"""Tests of file names, chunks of rows, and remaining samples: nothing twice, nothing omitted."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.endpoint_double import endpoint
from tutti.errors import UsageError
from tutti.tasks.benchmarks import BadRow
from tutti.tasks.sweeps.generate import (
    GenerateRequest,
    Part,
    check_file,
    open_work,
    settings_of,
    suite_of_part,
)


def request_of(folder: Path, rows: list[Any], **fields: Any) -> GenerateRequest:
    """Return a request for these rows; texts are lines unchanged."""
    file = folder / "rows.jsonl"
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    file.write_text("".join(f"{line}\n" for line in lines))
    return GenerateRequest(file, fields.pop("model", "m"), folder / "out", **fields)


@given(rows=st.integers(1, 500), chunks=st.integers(1, 40))
def test_chunks_are_a_partition_in_order(rows: int, chunks: int) -> None:
    """Every row is in one chunk, and chunk sizes differ by at most one row."""
    request = GenerateRequest(Path("a.jsonl"), "m", Path("o"), chunks=chunks, chunk=0)
    parts = [request.row_numbers(rows, chunk) for chunk in range(chunks)]
    assert [row for part in parts for row in part] == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_files_have_the_names_of_nemo_skills() -> None:
    request = GenerateRequest(Path("a.jsonl"), "m", Path("o"), samples=2, first_seed=3)
    assert request.seeds == (3, 4)
    assert request.path_of(4) == Path("o/output-rs4.jsonl")
    assert request.path_of(4, 7) == Path("o/output-rs4_chunk_7.jsonl")
    assert GenerateRequest(Path("a.jsonl"), "m", Path("o")).path_of(0) == Path("o/output.jsonl")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"chunks": 2, "chunk": 2}, "--chunk: 2 is none of 0 to 1"),
        ({"first_seed": 1}, "without --samples there are no seeds"),
        ({"model": None}, "--model: name an entry"),
        ({"model": None, "chunks": 2, "chunk": 0}, "--model: name an entry"),
    ],
)
def test_impossible_requests_are_refused(tmp_path: Path, fields: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        request_of(tmp_path, [{"question": "?"}], **fields)


@pytest.mark.parametrize(
    ("second", "fields", "words"),
    [
        ('{"question": ', {}, r"rows\.jsonl:2: not JSON"),
        ("[1]", {}, r"rows\.jsonl:2: \[1\] is not an object"),
        ({"text": "?"}, {}, r"rows\.jsonl:2: question: is missing \(or prompt, problem, messages"),
        ({"question": ""}, {}, r"rows\.jsonl:2: question: is empty"),
        ({"question": "?"}, {"question_field": "asked"}, r"rows\.jsonl:1: asked: is missing"),
        ({"question": "?"}, {"prompt": "{a}"}, r"rows\.jsonl:2: a: is missing; the prompt has it"),
        ({"question": "?", "generation": 1}, {}, r"rows\.jsonl:2: generation: the row has this"),
        ('{"question": "\\ud800"}', {}, r"rows\.jsonl:2: holds half a character"),
        ({"messages": []}, {}, r"rows\.jsonl:2: messages: is empty"),
        ({"messages": [{"role": "x"}]}, {}, r"rows\.jsonl:2: messages\.0\.role: 'x' is none of"),
        ({"messages": [{"role": "user"}]}, {}, r"messages\.0\.content: is neither a text"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field(
    tmp_path: Path, second: Any, fields: Any, words: str
) -> None:
    """No model is served before, because the check needs none."""
    rows = [{"question": "?", "a": "b"}, second]
    with pytest.raises(BadRow, match=words):
        check_file(request_of(tmp_path, rows, settings=fields))


def test_rows_may_repeat_and_be_conversations(tmp_path: Path) -> None:
    """An `id` need not be unique, and equal rows are two tasks."""
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    rows = [{"id": 1, "question": "?"}, {"id": 1, "question": "?"}, {"messages": said}]
    checked = check_file(request_of(tmp_path, rows))
    assert len(set(checked.task_ids)) == 3
    assert check_file(request_of(tmp_path, rows)) == checked
    limited = check_file(request_of(tmp_path, rows, limit=1))
    assert limited.task_ids == checked.task_ids[:1]
    with pytest.raises(UsageError, match="4 of 3 rows"):
        check_file(request_of(tmp_path, rows, chunks=4, chunk=0))


@given(
    runs=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.booleans()), max_size=6),
)
def test_what_is_left_is_what_has_no_file(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int, bool]]
) -> None:
    """After any earlier runs, finished or not, the remaining parts are the seeds without a file,
    each in one part, and a resumed part is unchanged."""
    folder = tmp_path_factory.mktemp("work")
    for first, samples, is_finished in runs:
        request = request_of(folder, [{"question": "?"}], samples=samples, first_seed=first)
        work = open_work(request, concurrency=4)
        missing = [seed for seed in request.seeds if not request.path_of(seed).exists()]
        left = [seed for part in work.left for seed in part.seeds]
        assert len(set(left)) == len(left) and set(missing) <= set(left) <= set(request.seeds)
        work.write({"temperature": 0.7})
        again = open_work(request, concurrency=9)
        assert again.left == work.left and not again.dropped
        for seed in left if is_finished else ():
            request.path_of(seed).touch()


def test_a_folder_of_other_settings_is_refused(tmp_path: Path) -> None:
    """A folder whose files have no description is refused, too."""
    request = request_of(tmp_path, [{"question": "?"}], samples=1)
    open_work(request, 4).write({"temperature": 0.7, "max_tokens": 64})
    with pytest.raises(UsageError, match=r"temperature 0\.7, now 0\.5; give another --out"):
        open_work(request, 4).check({"temperature": 0.5, "max_tokens": 64})
    (request.out / "generate.json").write_text("[]")
    with pytest.raises(UsageError, match="was not written by `tutti generate`"):
        open_work(request, 4)
    (request.out / "generate.json").unlink()
    request.path_of(0).touch()
    with pytest.raises(UsageError, match=r"no generate\.json describes it"):
        open_work(request, 4)


def test_the_store_keeps_replies_whole_that_lines_split_at_a_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A split reply no longer shows whether it had the tag."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    with endpoint({"id": "M"}) as url:
        for given, stored in ((None, "auto"), ("off", "off"), ("</think>", "off")):
            settings: Any = {} if given is None else {"reasoning": given}
            request = request_of(tmp_path, [{"question": "?"}], model=url, settings=settings)
            kept = asyncio.run(suite_of_part(request, Part(0, 1, 4), 1))
            assert kept.suite.sampling.reasoning == stored
            assert settings_of(kept.suite, request, check_file(request))["reasoning"] == (
                given or "auto"
            )


def test_a_name_is_kept_as_given_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule is that of `tutti run`; `--name gC` used to be stored as `gc`. A name derived from
    the file's is shortened."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    rows, part = [{"question": "?"}], Part(0, 1, 4)

    def name(url: str, **settings: Any) -> str:
        request = request_of(tmp_path, rows, model=url, settings=settings)
        return asyncio.run(suite_of_part(request, part, 1)).suite.name

    with endpoint({"id": "M"}) as url:
        assert name(url, name="g-1") == "g-1"
        assert name(url).startswith("generate-rows-127-0-0-1-")
        with pytest.raises(ValidationError, match=r"name\n  String should match"):
            name(url, name="gC")
