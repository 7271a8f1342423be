"""Tests of `tutti sql`: formats, parameters, files and errors."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

from tutti.cli.main import app
from tutti.cli.sql.rows import TEXT_FORMATS, Rows, cell_of
from tutti.cli.sql.statements import read_parameters, run_statement, typed
from tutti.terminal import CONTROL

EVERYTHING = """select timetz '10:00:00+01:00' as t, map{1: 2} as m, true as b, null as n,
    170141183460469231731687303715884105727::hugeint as h, 1.50::decimal(5,2) as d,
    [1, null] as l, {'a': [{'b': 'x'}]} as s, 'nan'::float as nan, ['inf'::double] as inf,
    '\\xAA'::blob as blob, interval 1 day as i, timestamptz '2026-01-02 03:04:05+00' as at,
    1 as b, '00000000-0000-0000-0000-00000000000a'::uuid as u"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty store; no test here writes to it."""
    return tmp_path_factory.mktemp("store")


def run(home: Path, *arguments: str, given: str | None = None) -> Result:
    variables = {"TUTTI_HOME": str(home), "COLUMNS": "200"}
    return CliRunner().invoke(app, ["sql", *arguments], input=given, env=variables)


def drawn(sql: str, output: str, width: int | None = None) -> str:
    """Return the whole text of a statement's rows."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        return "".join(TEXT_FORMATS[output](Rows(connection.execute(sql)), width))


def test_every_type_is_valid_json() -> None:
    text = drawn(EVERYTHING, "json")
    assert '"d":1.50' in text and '"h":170141183460469231731687303715884105727' in text
    (row,) = json.loads(text, parse_constant=pytest.fail, parse_float=Decimal)
    assert row == {
        "t": "10:00:00+01:00", "m": {"1": 2}, "b": True, "n": None, "h": 2**127 - 1,
        "d": Decimal("1.50"), "l": [1, None], "s": {"a": [{"b": "x"}]}, "nan": None, "inf": [None],
        "blob": "aa", "i": Decimal("86400.0"), "at": "2026-01-02 03:04:05+00:00", "b_1": 1,
        "u": "00000000-0000-0000-0000-00000000000a",
    }  # fmt: skip


def test_every_type_in_csv() -> None:
    header, row = csv.reader(io.StringIO(drawn(EVERYTHING, "csv")))
    assert dict(zip(header, row, strict=True)) == {
        "t": "10:00:00+01:00", "m": '{"1":2}', "b": "true", "n": "", "h": str(2**127 - 1),
        "d": "1.50", "l": "[1,null]", "s": '{"a":[{"b":"x"}]}', "nan": "nan", "inf": "[null]",
        "blob": "aa", "i": "1 day, 0:00:00", "at": "2026-01-02 03:04:05+00:00", "b_1": "1",
        "u": "00000000-0000-0000-0000-00000000000a",
    }  # fmt: skip


def test_no_rows() -> None:
    nothing = "select 1 as a, 'x' as b where false"
    assert drawn(nothing, "json") == "[]\n" and drawn(nothing, "csv") == "a,b\n"
    assert "a" in drawn(nothing, "table")


@pytest.mark.parametrize("output", TEXT_FORMATS)
def test_rows_are_drawn_as_they_are_needed(output: str) -> None:
    """Ten billion rows exceed the memory; the first rows are shown at once."""
    with duckdb.connect() as connection:
        rows = Rows(connection.execute("select range as n from range(10_000_000_000)"))
        assert list(islice(TEXT_FORMATS[output](rows, 80), 5))
        assert rows.count <= 10_000


def test_a_table_fits_its_terminal() -> None:
    sql = "select 'id:1' as id, repeat('word ', 40) as content, 12 as n"
    lines = drawn(sql, "table", 60).splitlines()
    assert len(lines) > 4 and all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 60 for line in lines)
    assert any(line.strip().startswith("id:1") and line.rstrip().endswith("12") for line in lines)


def test_a_table_too_wide_for_its_terminal_shows_a_row_as_a_block() -> None:
    columns = ", ".join(f"'value {n}' as a_rather_long_name_{n}" for n in range(12))
    text = drawn(f"select {columns}, null as last", "table", 60)
    assert "row 1" in text and re.search("a_rather_long_name_0 +value 0", text)


def test_a_table_has_at_most_a_thousand_rows(home: Path) -> None:
    table = run(home, "from range(1001)").stdout
    assert "the first 1,000 rows; the formats csv" in table and len(table.splitlines()) < 1010
    assert len(run(home, "from range(1001)", "--format", "csv").stdout.splitlines()) == 1002


def test_control_characters_are_shown_and_not_obeyed() -> None:
    """Models write control characters, with which a terminal would change its title, colours or
    clipboard, or show a line in another order. A file contains them unchanged."""
    sql = f"select chr(27) || ']0;pwned' || chr(7) || chr(13) || chr(8238) as a{chr(8238)}"
    for output, terminal in (("table", False), ("table", True), ("csv", True), ("json", True)):
        text = drawn(sql, output, 80 if terminal else None)
        own = re.sub(r"\x1b\[[\d;]*m", "", text)
        assert not CONTROL.search(own), output
        assert "]0;pwned" in text and "\\u202e" in text
    assert chr(27) in drawn(sql, "csv") and chr(8238) in drawn(sql, "json")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"), ("+1+1", "'+1+1"), ("-1+1|x", "'-1+1|x"), ("@sum(a1)", "'@sum(a1)"),
        ("\t=1", "'\t=1"), ("\r=1", "'\r=1"), ("\n=1", "'\n=1"), ("\uff1d1", "'\uff1d1"),
        ("- an item", "'- an item"), ("-5", "-5"), ("+1.5e3", "+1.5e3"), ("-1,000.5", "-1,000.5"),
        ("a=1", "a=1"), ("'=1", "'=1"), ("", ""), ("a\r=1", "a\r=1"),
    ],
)  # fmt: skip
def test_a_spreadsheet_runs_nothing_of_a_csv(text: str, written: str) -> None:
    """Texts of a model or a tool and column names are escaped; numbers stay numbers."""
    with duckdb.connect() as connection:
        rows = Rows(connection.execute('select $1 as "=x", -1 as n, -1.5::decimal as d', [text]))
        (*names, _, _), (cell, n, d) = csv.reader(
            io.StringIO("".join(TEXT_FORMATS["csv"](rows, None)), newline="")
        )
    assert (names, cell, n, d) == (["'=x"], written, "-1", "-1.500")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.123456, "0.1235"), (1234.56, "1235"), (1234567.8, "1234568"), (1e20, "1e+20"),
        (float("nan"), "nan"), (None, ""), (True, "true"), (b"\xaa", "aa"), ("a\tb", "a    b"),
        ([1, {"a": None}], '[1,{"a":null}]'),
    ],
)  # fmt: skip
def test_cells(value: Any, shown: str) -> None:
    assert cell_of(value) == shown


def test_ctrl_c_stops_a_query_that_would_never_end_and_the_next_one_runs() -> None:
    with duckdb.connect() as connection:
        (endless,) = connection.extract_statements("select count(*) from range(1000000000000)")
        pressed = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        pressed.start()
        with pytest.raises(KeyboardInterrupt):
            run_statement(connection, endless, {}, "table", None)
        pressed.join()
        assert list(Rows(connection.execute("select 1")).batches()) == [[(1,)]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("0.5", 0.5), ("true", True), ("null", None), ('"3"', "3"), ("[1, 2]", [1, 2]),
        ("cap", "cap"), ("cell:1234", "cell:1234"), ("12e456", "12e456"), ("NaN", "NaN"),
        ("0012", "0012"), ("", ""), ("a=b", "a=b"),
    ],
)  # fmt: skip
def test_a_parameter_is_json_or_else_text(text: str, value: Any) -> None:
    assert typed(text) == value and type(typed(text)) is type(value)
    assert read_parameters([f"$name={text}"]) == {"name": value}


def test_parameters_are_values_and_never_sql(home: Path) -> None:
    sql = "select $word as word, $n + 1 as n"
    done = run(home, sql, "--param", "word='; drop view cells", "--param", "n=2", "--json")
    assert json.loads(done.stdout) == [{"word": "'; drop view cells", "n": 3}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["select $a, $b", "--param", "a=1"],
            "Values were not provided",
        ),
        (["select $a", "--param", "a=1", "--param", "c=1"], "no parameter $c in the statement"),
        (["select 1", "--param", "c=1"], "it names: none"),
        (["select 1", "--param", "c"], "a parameter is name=value"),
        (["select 1; selec 2"], 'syntax error at or near "selec"'),
        (["select corect from attempts"], "LINE 1: select corect from attempts"),
        (["select * from attemts"], 'Did you mean "attempts"'),
        (["select 'x'::int"], "Could not convert string 'x'"),
        (["/* nothing */"], "no statement"),
        (["select 1; select 2"], "the rows of one statement"),
    ],
)
def test_what_a_user_can_fix_is_one_message(arguments: list[str], words: str, home: Path) -> None:
    done = run(home, *arguments)
    assert done.exit_code == 2 and not done.stdout
    assert words in done.stderr and "Traceback" not in done.stderr


def test_a_file_that_cannot_be_read_failed(home: Path) -> None:
    assert run(home, "from '/no/such.parquet'").exit_code == 1


def test_several_statements_and_what_they_changed(home: Path) -> None:
    sql = "create temp table t as select 1 as a; insert into t values (2), (3); select a from t"
    table = run(home, sql).stdout
    assert table.endswith("3 rows\n")
    assert json.loads(run(home, sql, "--json").stdout) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert run(home, "set threads = 1", "--json").stdout == "[]\n"


def test_statements_from_standard_input(home: Path) -> None:
    assert run(home, "--json", given="select 1 as n").stdout == '[{"n":1}]\n'
    assert run(home, "-", "--json", given="select 1 as n").stdout == '[{"n":1}]\n'
    assert run(home, given="").exit_code == 2


@pytest.mark.parametrize(
    ("name", "begin"),
    [("a.csv", b"a\n"), ("a.json", b'[{"a"'), ("a.parquet", b"PAR1"), ("a.txt", b"   \n a ")],
)
def test_a_files_name_decides_its_format(
    name: str, begin: bytes, home: Path, tmp_path: Path
) -> None:
    out = tmp_path / name
    done = run(home, "select 1 as a", "--out", str(out))
    assert (done.exit_code, done.stdout) == (0, "") and out.read_bytes().startswith(begin)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [name]


def test_parquet_keeps_types_and_takes_parameters(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.parquet"
    sql = "set threads = 1; select [$n] as l, {'a': date '2026-01-02'} as s, interval 1 day as i"
    assert run(home, sql, "--param", "n=3", "--out", str(out)).exit_code == 0
    described = duckdb.execute(f"describe from '{out}'").fetchall()
    assert [row[1] for row in described] == ["INTEGER[]", "STRUCT(a DATE)", "INTERVAL"]


def test_parquet_goes_through_a_pipe(tmp_path: Path) -> None:
    code = "import tutti.cli.main; tutti.cli.main.main()"
    command = [sys.executable, "-c", code, "sql", "select 42 as a", "--format", "parquet"]
    piped = subprocess.run(command, capture_output=True, env={"TUTTI_HOME": str(tmp_path)})
    assert piped.stdout[:4] == piped.stdout[-4:] == b"PAR1", piped.stderr


def test_a_file_is_whole_or_not_there(home: Path, tmp_path: Path) -> None:
    """The old file is kept when the statement fails half way."""
    out = tmp_path / "a.csv"
    out.write_text("old")
    fails = "select if(range = 5000, error('late'), range) as n from range(6000)"
    done = run(home, fails, "--out", str(out))
    assert done.exit_code != 0 and out.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["a.csv"]
    nowhere = run(home, "select 1", "--out", str(tmp_path / "no" / "a.csv"))
    assert nowhere.exit_code == 2 and re.search(
        r"cannot write .*there is no folder", nowhere.stderr
    )


def test_a_device_is_written_to_and_not_replaced(home: Path) -> None:
    assert run(home, "select 1", "--out", "/dev/null", "--format", "csv").exit_code == 0
    assert Path("/dev/null").is_char_device()
