"""Tests that any text is escaped on a page, and that a table is the same on a page and
elsewhere."""

import io
import re
from html import escape, unescape
from pathlib import Path

import pytest
from rich.console import Console

from tutti.tasks.reporting.figures.drawing import Plot
from tutti.tasks.reporting.figures.html import (
    Figures,
    PageReport,
    Part,
    Quote,
    Section,
    Transcripts,
    write_page,
)
from tutti.tasks.reporting.measures.failures import Transcript
from tutti.tasks.reporting.measures.table import Table, tabulate

HOSTILE = "</pre><script>alert(\"1\" + '2')</script>{{ title }} & $x"


def page_of(out: Path, *parts: Part, text: str = "") -> str:
    """Return a page with these parts, in which every text is `text`."""
    report = PageReport(out / "index.html", findings=[text], gaps=[text], alarms=[text])
    sections = [Section(text, parts, text)]
    return write_page(report, text, {text: text}, sections).page.read_text()


def transcript(text: str) -> Transcript:
    """Return an attempt in which every text is `text`."""
    names = ("attempt_id", "task_id", "model", "policy", "status", "stop_reason", "error_type")
    attempt = dict.fromkeys((*names, "error_message", "side"), text) | {"concurrency": 2}
    call = {"name": text, "arguments": text}
    message = {"role": text, "name": text, "content": text, "reasoning": text}
    message |= {"tool_calls": [call], "characters": 5, "nth": 1, "n": 1}  # type: ignore[dict-item]
    return Transcript(attempt, [message])


@pytest.mark.parametrize(
    "part",
    [
        Table({HOSTILE: [HOSTILE], "error": [HOSTILE]}, HOSTILE, HOSTILE),
        Table({}, HOSTILE, missing=HOSTILE),
        Figures([Plot("none", HOSTILE, HOSTILE, missing=HOSTILE)]),
        Quote(HOSTILE, HOSTILE, [HOSTILE]),
        Quote(HOSTILE, HOSTILE, folded=True),
        Transcripts({"a": transcript(HOSTILE)}),
    ],
)
def test_hostile_text_is_text(part: Part, tmp_path: Path) -> None:
    page = page_of(tmp_path, part, text=HOSTILE)
    assert "<script" not in page and HOSTILE in unescape(page)
    without = page_of(tmp_path, text="plain")
    assert escape("<script>") in page and "<script" not in without


def test_a_table_says_the_same_everywhere(tmp_path: Path) -> None:
    """Columns without values are left out; [brackets] are not interpreted as terminal markup."""
    columns = {"model": lambda row: row[0], "n": lambda row: row[1], "side": lambda row: ""}
    table = tabulate(columns, [("a|b <c> [red]", "12"), ("better", "3")], "Title")
    page = page_of(tmp_path, table)
    cells = [unescape(each) for each in re.findall(r"<td[^>]*>(.*?)</td>", page)]
    assert cells == ["a|b <c> [red]", "12", "better", "3"]
    assert '<td class="words better">' in page and "<h3>Title</h3>" in page
    assert table.markdown().splitlines() == [
        "| model | n |",
        "| --- | ---: |",
        "| a\\|b &lt;c> [red] | 12 |",
        "| better | 3 |",
    ]
    printed = io.StringIO()
    Console(file=printed, width=80).print(table)
    assert [line.split() for line in printed.getvalue().splitlines()[4:6]] == [
        ["a|b", "<c>", "[red]", "12"],
        ["better", "3"],
    ]


def test_a_terminal_leaves_out_what_is_least_needed(tmp_path: Path) -> None:
    """Columns of `spare` are dropped in order until the rest fits 80 characters."""
    wide = {name: ["9" * 30] for name in ("a", "b", "c", "d")}
    printed = io.StringIO()
    Console(file=printed, width=80).print(Table(wide, spare=("b", "d", "a")))
    assert printed.getvalue().split()[:2] == ["a", "c"]


def test_an_empty_table_is_said_or_left_out(tmp_path: Path) -> None:
    assert "No rows." in page_of(tmp_path, tabulate({}, [], "Shown"))
    assert "Hidden" not in page_of(tmp_path, tabulate({}, [], "Hidden", missing=""))
