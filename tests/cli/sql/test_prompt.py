"""Tests of the `tutti sql` prompt: input, completion, history and output, and one run in a real
terminal."""

import io
import json
import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tutti.cli.sql.completion import Names, SqlCompleter, is_complete, named_in
from tutti.cli.sql.prompt import COMMANDS, Shell, session, show, talk
from tutti.storage import Catalog, Home, commit, connect, open_catalog
from tutti.tasks.platform.project import PROJECT

CTRL_C, CTRL_D, TAB = "\x03", "\x04", "\t"


class ProbeResponse(list[str]):
    """Output and messages of a shell."""

    def show(self, pieces: Iterable[str]) -> None:
        self.append("".join(pieces))

    @property
    def text(self) -> str:
        return "\n".join(self)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with open_catalog(Home(tmp_path / "store")) as catalog:
        commit(catalog, {"attempts": [{"attempt_id": f"attempt:{n}"} for n in range(3)]})
        yield catalog


@pytest.fixture
def said() -> ProbeResponse:
    return ProbeResponse()


@pytest.fixture
def shell(catalog: Catalog, said: ProbeResponse) -> Iterator[Shell]:
    shell = Shell(catalog.home, show=said.show, say=said.append)
    yield shell
    shell.connection.close()


def typed(shell: Shell, keys: str) -> None:
    """Feed `keys` to the shell until the user leaves."""
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        talk(shell, session(shell, pipe, DummyOutput()))


# --- Enter ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "  ", ".help", "exit", "select 1;", "select 1 ; ", "select ';' ;", "select 1; -- done",
     'select ";" from t;', "select $$ ; $$;", "/* ; */ select 1;", "select 'it''s';"],
)  # fmt: skip
def test_enter_runs(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize(
    "text",
    ["select 1", "select ';", "select 1 -- ;", "select 1 /* ;", 'select ";', "select $$ ;",
     "select 'it''s;", "select 1; select"],
)  # fmt: skip
def test_enter_goes_on(text: str) -> None:
    assert not is_complete(text)


def test_a_statement_may_take_several_lines(shell: Shell, said: ProbeResponse) -> None:
    typed(shell, f"select count(*) as n\rfrom attempts\r;\r{CTRL_D}")
    assert "\n 3 \n" in said[0] and said[1] == "1 row"


def test_ctrl_c_clears_the_line_and_leaving_has_many_names(
    shell: Shell, said: ProbeResponse
) -> None:
    typed(shell, f"selec nonsense{CTRL_C}select 1 as a;\r.quit\r select 2;\r")
    assert said.text.count("row") == 1
    for leaving in ("exit\r", "quit;\r", "\\q;\r", CTRL_D):
        shell.done = False
        typed(shell, leaving)


def test_what_was_run_is_remembered_in_the_store(shell: Shell) -> None:
    typed(shell, f"select 1;\rselect\r2;\r{CTRL_D}")
    history = FileHistory(shell.home.root / "sql_history")
    assert list(history.load_history_strings()) == ["select\n2;", "select 1;"]


def test_an_error_is_said_and_the_next_line_is_read(shell: Shell, said: ProbeResponse) -> None:
    typed(
        shell, f"select nope from attempts;\rselec 1;\rselect $x;\r.nope\rselect 7 as a;\r{CTRL_D}"
    )
    assert 'column "nope" not found' in said[0] and "^" in said[0]
    assert "syntax error" in said[1] and "no value for $x" in said[2] and ".help" in said[3]
    assert "\n 7 \n" in said[4]


def test_a_fault_of_ours_is_not_hidden(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "_run", lambda statement: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shell.line("select 1;")


def test_an_interrupted_query_leaves_the_session_as_it_was(
    shell: Shell, said: ProbeResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shell, "_run", interrupted)
        shell.line("select 1;")
    shell.line("select 5 as a;")
    assert said[0] == "interrupted" and "\n 5 \n" in said[1]


# --- completion -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Names]:
    """Yield the names of an empty store."""
    connection = connect(Home(tmp_path_factory.mktemp("empty")))
    yield Names(connection)
    connection.close()


def offered(names: Names, text: str) -> list[str]:
    before, _, after = text.partition("|")
    arguments = {name: command.arguments for name, command in COMMANDS.items()}
    completer = SqlCompleter(lambda: names, arguments)
    document = Document(before + after, len(before))
    return [each.text for each in completer.get_completions(document, CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("select * from att|", ["attempts"]),
        ("select * from attempts, sco|", ["scores"]),
        ("select pol|", ["policy"]),
        ("select st| from attempts", ["status", "stop_reason", "started_at", "steps"]),
        ("select * from attempts a join scores s on a.attempt_id = s.sc|", ["scorer"]),
        ("select * from attempts where prompt_t|", ["prompt_tokens"]),
        ("select * from window_summary('x', 0, 1) w where w.steps_|", ["steps_per_min"]),
        ("select * from attempts gro|", ["group"]),
        ("SELECT * FROM attempts GRO|", ["GROUP"]),
        ("select 1; select * from task_|", ["task_sets"]),
        ("select quantile_c|", ["quantile_cont("]),
        ("select * from win|", ["windows", "window_summary("]),
        (".sch|", [".schema"]),
        (".schema sc|", ["scores"]),
        (".format j|", ["json"]),
    ],
)
def test_likely_things_come_first(names: Names, text: str, first: list[str]) -> None:
    offers = offered(names, text)
    for offer, wanted in zip(offers, first, strict=False):
        assert offer.startswith(wanted), offers[:5]
    assert len(offers) >= len(first)


def test_columns_of_the_tables_named_come_before_keywords_and_functions(names: Names) -> None:
    offers = offered(names, "select st| from tool_runs")
    assert offers[:3] == ["step", "started_at", "status"] and "stddev(" in offers
    assert "stop_reason" not in offers  # a column of attempts


def test_a_name_is_offered_for_what_it_has_inside(names: Names) -> None:
    assert offered(names, "select tokens| from attempts")[:3] == [
        *("prompt_tokens", "cached_tokens", "completion_tokens"),
    ]


@pytest.mark.parametrize(
    "text",
    ["select 'att|", "select 1 -- att|", "select |", "select * from nothing where nothing.|"],
)
def test_nothing_is_offered_where_nothing_fits(names: Names, text: str) -> None:
    assert offered(names, text) == []


def test_what_views_are_made_of_is_nobodys_business() -> None:
    with duckdb.connect() as connection:
        connection.execute("create table a_schema(x int); create view a as select * from a_schema")
        connection.execute("create table my_schema(x int)")
        assert set(Names(connection).tables) == {"a", "my_schema"}


def test_tables_are_found_by_what_the_statement_calls_them(names: Names) -> None:
    sql = (
        "select 1 from attempts as a, calls c join scores on true where x in (select 1 from tasks)"
    )
    assert named_in(sql, names) == {
        "a": "attempts", "c": "calls", "scores": "scores", "tasks": "tasks",
    }  # fmt: skip


# --- dot commands -----------------------------------------------------------------------------


def test_help_names_every_command(shell: Shell, said: ProbeResponse) -> None:
    shell.line(".help")
    assert all(name in said.text for name in COMMANDS)


def test_tables_and_their_rows(shell: Shell, said: ProbeResponse) -> None:
    shell.line("create temp table mine as select 1 as a;")
    shell.line(".tables")
    lines = [line.split(maxsplit=1) for line in said[-1].splitlines()]
    rows = {line[0]: line[1] for line in lines if len(line) == 2}
    assert rows["attempts"].split() == ["3", "1"] and rows["mine"].strip() == "1"


def test_schema_of_one_of_a_macro_and_of_all(shell: Shell, said: ProbeResponse) -> None:
    shell.line(".schema scores")
    assert re.search("scorer_version +varchar", said[-1])
    shell.line(".schema steady_window")
    assert re.search("reason +varchar", said[-1])
    shell.line(".schema")
    assert "attempts\n    run_id varchar" in said.text and "scores\n" in said.text
    shell.line(".schema attemps")
    assert "no table or macro attemps" in said[-1]
    shell.line(".macros")
    assert "window_summary(cell, start_s, end_s)" in said.text


def test_formats_and_the_next_results_file(
    shell: Shell, said: ProbeResponse, tmp_path: Path
) -> None:
    shell.line(".format json")
    shell.line("select 1 as a;")
    assert json.loads(said[-2]) == [{"a": 1}]
    out = tmp_path / "a.csv"
    shell.line(f".out {out}")
    shell.line("selec 1;")  # an error leaves the file for the next one
    shell.line("set threads = 2;")  # and so does what gives no rows
    shell.line("select 2 as a;")
    assert out.read_text() == "a\n2\n" and said[-1] == f"1 row to {out}"
    shell.line("select 3 as a;")
    assert json.loads(said[-2]) == [{"a": 3}]
    shell.line(".format xml")
    assert "there are table, csv, json, parquet" in said[-1]


def test_parquet_needs_a_file(shell: Shell, said: ProbeResponse, tmp_path: Path) -> None:
    shell.line(".format parquet")
    shell.line("select 1 as a;")
    assert ".out FILE" in said[-1]
    shell.line(f".out {tmp_path / 'a'}")
    shell.line("select $n as a from range(4);")
    assert "no value for $n" in said[-1]
    shell.line(".param n=5")
    shell.line("select $n as a from range(4);")
    assert said[-1] == f"written to {tmp_path / 'a'}"
    assert pq.read_table(tmp_path / "a").to_pydict() == {"a": [5] * 4}
    shell.line(f".out {tmp_path / 'no' / 'a'}")
    shell.line("select 1 as a;")
    assert "cannot write" in said[-1]


def test_parameters_stay(shell: Shell, said: ProbeResponse) -> None:
    shell.line(".param who=attempt:1")
    assert said[-1] == "$who = 'attempt:1'"
    shell.line("select count(*) as n from attempts where attempt_id = $who;")
    assert "\n 1 \n" in said[-2]
    shell.line("select 1 as a;")  # what does not name it does not mind
    assert said[-1] == "1 row"


# --- newer rows -------------------------------------------------------------------------------


def test_newer_rows_are_seen_after_a_refresh(
    shell: Shell, catalog: Catalog, said: ProbeResponse
) -> None:
    shell.line("create temp table mine as select 1 as a;")
    assert "mine" in shell.names.tables  # and is completed
    commit(catalog, {"attempts": [{"attempt_id": "attempt:new"}]})
    shell.line("select * from mine;")
    assert said[-1] == "1 row" and "3 rows in 1 parts" in shell.summary
    shell.line(".refresh")
    assert "4 rows in 2 parts" in said[-1] and "mine" not in shell.names.tables


# --- paging -----------------------------------------------------------------------------------


class Screen(io.StringIO):
    """Terminal of ten lines as standard output."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pager: str) -> None:
        super().__init__()
        monkeypatch.setattr(sys, "stdout", self)
        monkeypatch.setenv("LINES", "10")
        monkeypatch.setenv("PAGER", pager)

    def isatty(self) -> bool:
        return True


def test_rows_go_through_the_pager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "pager"
    script.write_text(f"#!/bin/sh\ncat > {tmp_path / 'paged'}\n")
    script.chmod(0o755)
    Screen(monkeypatch, str(script))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    show(iter(["long\n"] * 9))
    assert (tmp_path / "paged").read_text().split() == ["long"] * 9


# --- a real terminal --------------------------------------------------------------------------


class Terminal:
    """The prompt in its own process, in a real terminal."""

    def __init__(self, home: Path) -> None:
        environment = {
            **os.environ, "TUTTI_HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1",
            "PYTHONPATH": str(PROJECT), "PAGER": "cat",
        }  # fmt: skip
        self.child, self.fd = pty.fork()
        if self.child == 0:
            command = [sys.executable, "-m", "tutti.cli.main", "sql"]
            os.execvpe(command[0], command, environment)
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(self, words: str) -> None:
        """Read the terminal's output up to `words`."""
        while words not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], 20)
            assert ready, f"waited for {words!r}, seen: {self.seen}"
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        self.seen = self.seen.partition(words)[2]


@pytest.mark.timeout(100)
def test_in_a_real_terminal(tmp_path: Path) -> None:
    """The test covers a completion, a result, Ctrl-C in a query that would never end, and
    Ctrl-D."""
    terminal = Terminal(tmp_path)
    terminal.until("tutti>")
    terminal.type("select count(*) from attem")
    terminal.until("attempts")  # the list of completions
    terminal.type(f"{TAB}\r;\r")  # Enter takes what is picked in the list
    terminal.until("1 row")
    terminal.until("tutti>")
    terminal.type("select count(*) from range(1000000000000);\r")
    time.sleep(0.3)  # it must be running: nothing on the screen says so
    terminal.type(CTRL_C)
    terminal.until("interrupted")
    terminal.until("tutti>")
    terminal.type("select 1 + 1 as two;\r")
    terminal.until("1 row")
    terminal.until("tutti>")
    terminal.type(CTRL_D)
    _, status = os.waitpid(terminal.child, 0)
    os.close(terminal.fd)
    assert os.waitstatus_to_exitcode(status) == 0
