"""Tests of rows: errors name file, line and field, and no invalid row is skipped."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.benchmarks import BadRow
from tutti.tasks.benchmarks.rows import Row, read_rows


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        (b'{"a": 1}\n\n{"a": 2}\n', 2, "a blank line"),
        (b'{"a": 1}\n{"a": \n', 2, "not JSON"),
        (b'{"a": NaN}\n', 1, "NaN is not JSON"),
        (b'{"a": 1}\n[1]\n', 2, "not an object"),
        (b'{"a": 1}\n{"a": "\xff"}\n', 2, "utf-8"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, content: bytes, line: int, said: str) -> None:
    """A line that is no object stops the reading with an error that has its number."""
    file = tmp_path / "rows.jsonl"
    file.write_bytes(content)
    with pytest.raises(BadRow, match=said) as caught:
        list(read_rows(file))
    assert (caught.value.file, caught.value.line) == (file, line)
    assert f"{file}:{line}: " in str(caught.value)


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    """JSONL, a JSON list, JSON lines in a .json file, CSV, TSV and Parquet give the same rows."""
    rows = [{"question": 'a "b",\nc', "answer": "1"}, {"question": "d\té", "answer": "2"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.json").write_text(json.dumps(rows))
    (tmp_path / "c.json").write_text(lines)
    csv_rows = [("question", "answer"), ('"a ""b"",\nc"', "1"), ("d\té", "2")]
    (tmp_path / "d.csv").write_text("\n".join(",".join(row) for row in csv_rows) + "\n")
    tsv_rows = [("question", "answer"), ('"a ""b"",\nc"', "1"), ('"d\té"', "2")]
    (tmp_path / "e.tsv").write_text("\n".join("\t".join(row) for row in tsv_rows) + "\n")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "f.parquet")
    for file in sorted(tmp_path.iterdir()):
        assert [dict(row.data) for row in read_rows(file)] == rows, file.name


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n3\n", "rows.csv:3: b: the row ends"),
        ("a,b\n1,2,3\n", "rows.csv:2: has more fields"),
        ('a,b\n1,"2\n', "not a table"),
    ],
)
def test_bad_table_is_named(tmp_path: Path, content: str, said: str) -> None:
    """A table row that is short, long or truncated is an error."""
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(BadRow, match=said):
        list(read_rows(tmp_path / "rows.csv"))


@pytest.mark.parametrize("name", ["a.txt", "broken.parquet", "number.json"])
def test_what_is_no_table_of_rows(tmp_path: Path, name: str) -> None:
    """An unknown suffix, damaged Parquet and JSON that is no list are errors that name the file."""
    (tmp_path / name).write_text("7")
    with pytest.raises(BadRow, match=name):
        list(read_rows(tmp_path / name))


ROW = Row(
    Path("f.jsonl"), 7, {"t": "x", "e": " ", "n": 1, "b": True, "l": [{"q": 2}], "j": "{", "o": {}}
)


def test_values_are_not_converted_by_guess() -> None:
    """Each accessor accepts its type only, and its error gives the place of any other value."""
    for wrong in (
        lambda: ROW.text("n"),
        lambda: ROW.text("e"),
        lambda: ROW.name("b"),
        lambda: ROW.whole("b"),
        lambda: ROW.whole("t"),
        lambda: ROW.array("o"),
        lambda: ROW.object("l"),
        lambda: ROW.texts("l"),
        lambda: ROW.json("j"),
        lambda: ROW.objects("l")[0].text("q"),
        lambda: ROW.text("gone", "lost"),
    ):
        with pytest.raises(BadRow, match=r"^f.jsonl:7: \w"):
            wrong()
    assert ROW.text("gone", "t") == "x" and ROW.name("n") == "1" and ROW.whole("n") == 1


def test_inner_fields_are_dotted() -> None:
    """An error inside a list of objects gives the full dotted path."""
    with pytest.raises(BadRow, match=r"l\.0\.q: 2 is not text") as caught:
        ROW.objects("l")[0].text("q")
    assert caught.value.field == "l.0.q"


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=4), max_size=5))
def test_lines_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[object]) -> None:
    """Any objects written as JSON lines are read back unchanged, numbered from 1."""
    file = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = list(read_rows(file))
    assert [dict(row.data) for row in found] == rows
    assert [row.line for row in found] == list(range(1, len(rows) + 1))
