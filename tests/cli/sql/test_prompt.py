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
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tutti.cli.sql import prompt
from tutti.cli.sql.completion import Names, SqlCompleter
from tutti.cli.sql.prompt import Shell, session, show, talk
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


def test_a_statement_may_take_several_lines(shell: Shell, said: ProbeResponse) -> None:
    typed(shell, f"select count(*) as n\rfrom attempts\r;\r{CTRL_D}")
    assert "\n 3 \n" in said[0] and said[1] == "1 row"


def test_ctrl_c_clears_the_line_and_leaving_has_many_names(
    shell: Shell, said: ProbeResponse
) -> None:
    typed(shell, f"selec nonsense{CTRL_C}select 1 as a;\r.quit\r select 2;\r")
    assert said.text.count("row") == 1
    for leaving in ("exit\r", "quit;\r", CTRL_D):
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
    assert "syntax error" in said[1] and "not provided" in said[2] and ".help" in said[3]
    assert "\n 7 \n" in said[4]


def test_a_fault_of_ours_is_not_hidden(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "run_statement", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shell.line("select 1;")


def test_an_interrupted_query_leaves_the_session_as_it_was(
    shell: Shell, said: ProbeResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(prompt, "run_statement", interrupted)
        shell.line("select 1;")
    shell.line("select 5 as a;")
    assert said[0] == "interrupted" and "\n 5 \n" in said[1]


# --- completion -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Names]:
    """Yield the names of an empty store."""
    connection = connect(Home(tmp_path_factory.mktemp("empty")))
    yield Names.of(connection)
    connection.close()


def offered(names: Names, text: str) -> list[str]:
    before, _, after = text.partition("|")
    completer = SqlCompleter(lambda: names, [".help", ".schema"])
    document = Document(before + after, len(before))
    return [each.text for each in completer.get_completions(document, CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("select * from att|", ["attempts"]),
        ("select pol|", ["policy"]),
        ("select st| from attempts", ["status", "stop_reason", "started_at"]),
        ("select s.sc| from scores s", ["scorer"]),
        ("select * from attempts where prompt_t|", ["prompt_tokens"]),
        ("select * from attempts gro|", ["group"]),
        ("select 1; select * from task_|", ["task_sets"]),
        ("select quantile_c|", ["quantile_cont("]),
        ("select * from win|", ["windows", "window_summary("]),
        (".sch|", [".schema"]),
        (".schema sc|", ["scores"]),
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
    offers = offered(names, "select tokens| from attempts")
    assert {*offers[:3]} == {"prompt_tokens", "cached_tokens", "completion_tokens"}


@pytest.mark.parametrize(
    "text",
    ["select |", "select 1, |"],
)
def test_nothing_is_offered_where_nothing_fits(names: Names, text: str) -> None:
    assert offered(names, text) == []


def test_what_views_are_made_of_is_nobodys_business() -> None:
    with duckdb.connect() as connection:
        connection.execute("create table a_schema(x int); create view a as select * from a_schema")
        connection.execute("create table my_schema(x int)")
        assert set(Names.of(connection).tables) == {"a", "my_schema"}


# --- dot commands -----------------------------------------------------------------------------


def test_tables_and_schema_of_a_table_and_of_a_macro(shell: Shell, said: ProbeResponse) -> None:
    shell.line("create temp table mine as select 1 as a;")
    shell.line(".tables")
    assert re.search(r"attempts +3 +1 *\n", said.text) and "mine" in said.text
    assert "window_summary(cell, start_s, end_s)" in said
    shell.line(".schema scores")
    assert re.search("scorer_version +varchar", said[-1])
    shell.line(".schema steady_window")
    assert re.search("reason +varchar", said[-1])
    shell.line(".schema attemps")
    assert "no table or macro attemps" in said[-1]


def test_formats_and_help(shell: Shell, said: ProbeResponse) -> None:
    shell.line(".format json")
    shell.line("select 1 as a;")
    assert json.loads(said[-2]) == [{"a": 1}]
    shell.line(".format xml")
    assert ".help lists them" in said[-1]
    shell.line(".help")
    assert ".format FORMAT" in said[-1]


def test_parameters_are_those_that_a_statement_names(shell: Shell, said: ProbeResponse) -> None:
    shell.parameters["who"] = "attempt:1"
    shell.line("select count(*) as n from attempts where attempt_id = $who;")
    assert "\n 1 \n" in said[-2]
    shell.line("select 1 as a;")
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
    terminal.until("table")  # the list of completions
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
