"""Tests of selections: the syntax is strict, and the same text selects the same tasks."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.benchmarks import BenchmarkChoice, Task, parse_benchmark, select
from tutti.tasks.benchmarks.errors import BadSelection


def tasks(count: int = 6) -> list[Task]:
    """Return tasks numbered from 0 with two subjects; the last has no level."""
    made = []
    for n in range(count):
        attributes = {"subject": "physics" if n % 2 else "chemistry"}
        if n < count - 1:
            attributes["level"] = str(n)
        made.append(Task(str(n), {"question": f"q{n}"}, {"answer": "a"}, attributes))
    return made


def ids(found: list[Task]) -> list[str]:
    return [task.key for task in found]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("gsm8k", BenchmarkChoice("gsm8k")),
        ("aime-25:16", BenchmarkChoice("aime-25", None, 16)),
        ("gsm8k@cc7b04", BenchmarkChoice("gsm8k", "cc7b04")),
        (" hle@refs/pr/3:2 ", BenchmarkChoice("hle", "refs/pr/3", 2)),
        ("my.jsonl", BenchmarkChoice("my", path=Path("my.jsonl"))),
        ("./shop:2", BenchmarkChoice("shop", None, 2, Path("shop"))),
        ("/a/b.c/", BenchmarkChoice("b.c", path=Path("/a/b.c"))),
        ("task_set:0a1b:2", BenchmarkChoice("task_set-0a1b", None, 2, task_set="task_set:0a1b")),
        ("a b/my täsk.py:4", BenchmarkChoice("my-t-sk", None, 4, Path("a b/my täsk.py"))),
    ],
)
def test_asked(text: str, asked: BenchmarkChoice) -> None:
    """The forms are name, name:N, name@revision and both, a file, a domain's folder, and a stored
    task set."""
    assert parse_benchmark(text) == asked


@pytest.mark.parametrize(
    "text", ["", ":3", "a:", "a:x", "a:0", "a:-1", "a:1:2", "a@", "a b", "a:99999"]
)
def test_asked_wrongly(text: str) -> None:
    """Any other text is an error and is never parsed in part."""
    with pytest.raises(BadSelection):
        parse_benchmark(text)


def test_selection_keeps_the_source_s_order() -> None:
    """Ids in any order, `where` and then the limit are applied, always in the order of the
    source."""
    assert ids(select(tasks())) == ["0", "1", "2", "3", "4", "5"]
    assert ids(select(tasks(), ids=["4", "1", "1"])) == ["1", "4"]
    assert ids(select(tasks(), where="subject='physics'")) == ["1", "3", "5"]
    assert ids(select(tasks(), where="subject = 'physics' and level::int >= 1", limit=1)) == ["1"]
    assert ids(select(tasks(), where="level IS NULL")) == ["5"]
    assert ids(select(tasks(), where="id in ('2', '0')")) == ["0", "2"]
    assert ids(select(tasks(), limit=2)) == ["0", "1"]
    assert select([], where="id = '1'") == []


@pytest.mark.parametrize(
    "where",
    [
        "topic = 'physics'",
        "subject = 'physics",
        "subject",
        "true; drop table items",
        "true) union select 1 --",
        "exists (select 1 from read_csv('/etc/passwd'))",
        "(select count(*) from read_text('/etc/passwd')) > 0",
        "getenv('HOME') = ''",
        "level::int > 2 and subject::int = 1",
    ],
)
def test_where_is_one_expression_over_the_attributes(where: str) -> None:
    """Unknown names, statements, and expressions that reach beyond the tasks are errors that list
    the attributes."""
    with pytest.raises(BadSelection, match="The attributes are id, level, subject"):
        select(tasks(), where=where)


def test_ids_and_limits_that_make_no_sense() -> None:
    """Unknown ids and a limit below 1 are errors."""
    with pytest.raises(BadSelection, match="no tasks 9; the ids begin 0, 1"):
        select(tasks(), ids=["9", "1"])
    with pytest.raises(BadSelection, match="at least 1"):
        select(tasks(), limit=0)


@given(st.sets(st.integers(0, 5)), st.integers(1, 8))
def test_a_limit_is_a_prefix(wanted: set[int], limit: int) -> None:
    """A limit keeps the first tasks of the rest of the selection."""
    chosen = [str(n) for n in sorted(wanted)]
    assert ids(select(tasks(), ids=chosen, limit=limit)) == chosen[:limit]
