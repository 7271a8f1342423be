"""Tests of the page: its numbers, its list of missing data, and that it loads nothing external."""

import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tutti.tasks.reporting import Report, build_report

TITLE = "Load & models"
NOTES = {"machine": "2 cores <none>", "task set": "task_set:0123456789abcdef"}
Connect = Callable[..., DuckDBPyConnection]


@pytest.fixture(scope="module")
def report(connection: DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of both sweeps."""
    out = tmp_path_factory.mktemp("report")
    return build_report(connection, ["load", "models"], out, TITLE, NOTES)


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return report.page.read_text()


def test_files(report: Report) -> None:
    names = {"throughput", "accuracy", "step_latency", "cost", "families"}
    names |= {"timeline-2", "timeline-8", "pareto"}
    assert set(report.plots) == names
    written = {"index.html"} | {f"{n}.{kind}" for n in names for kind in ("svg", "png")}
    assert set(os.listdir(report.page.parent)) == written
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in report.plots.values())


def test_numbers(page: str) -> None:
    for number in (
        "75.0 %",
        "44.2 to 91.9",
        "59.6",
        "0.1 to 152.1",
        "60.0 %",
        "all families",
        "0.40",
    ):
        assert number in page
    assert "(n = 151, " in page  # steps behind the first policy's points
    assert "8 at once: cap against passthrough: <strong>better</strong>." in page
    assert "after $1 &amp; $2 against before &lt;b&gt;: <strong>better</strong>." in page
    assert "Nothing is missing." in page


def test_nothing_is_loaded(page: str) -> None:
    assert "http://" not in page and "https://" not in page
    assert not re.search(r"<(script|link|img|iframe|object)|@import|\ssrc=", page)
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert set(re.findall(r'href="(.)', page)) <= {"#"}


def test_text_is_escaped(page: str) -> None:
    assert "<b>" not in page and "before &lt;b&gt;" in page
    assert "2 cores &lt;none&gt;" in page and "<title>Load &amp; models</title>" in page


def test_ids_are_unique_and_used(page: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert {*re.findall(r"url\(#([^)]*)\)", page), *re.findall(r'href="#([^"]*)"', page)} <= set(
        ids
    )


def test_the_printed_page(page: str) -> None:
    """The findings may break across pages, because otherwise the first page is empty; figures have
    one scale."""
    printed = page.partition("@media print")[2].partition("</style>")[0]
    rules = re.findall(r"([^{}]*)\{([^{}]*)\}", printed)
    kept = [names for names, rule in rules if "break-inside: avoid" in rule]
    assert kept and not any(".summary" in names for names in kept)
    assert "max-width: calc(var(--width) *" in printed and ".wide { overflow: visible; }" in printed
    assert len(re.findall(r'<svg role="img" [^>]*style="--width: \d+px"', page)) > 5


def test_tags_close(page: str) -> None:
    class Balance(HTMLParser):
        open_tags: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, _: object) -> None:
            if tag != "meta":
                self.open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open_tags.pop() == tag

    parser = Balance()
    parser.feed(page)
    assert parser.open_tags == []


def test_same_data_same_bytes(
    connection: DuckDBPyConnection, report: Report, tmp_path: Path
) -> None:
    again = build_report(connection, ["load", "models"], tmp_path, TITLE, NOTES)
    for path in report.page.parent.iterdir():
        assert path.read_bytes() == (again.page.parent / path.name).read_bytes(), path.name


def test_no_sweeps_and_no_cells(connect_to: Connect, tmp_path: Path) -> None:
    connection = connect_to()
    for ids in ([], ["nowhere"]):
        report = build_report(connection, ids, tmp_path / "out", "Empty", {})
        assert report.plots == {} and report.cells == []
        assert "<svg" not in report.page.read_text()
        assert "The load sweep has no cells." in report.page.read_text()


def test_no_calls(connect_to: Connect, tmp_path: Path) -> None:
    connection = connect_to({"called": False, "sampled": False})
    report = build_report(connection, ["s"], tmp_path / "out", "No calls", {})
    assert set(report.plots) == {"accuracy", "cost", "families", "pareto"}
    assert {s.model for s in report.scores} == {"pocket"}  # no comparison: the load sweep's own
    page = report.page.read_text()
    assert "no requests, so no rates and no latencies: the only cell." in page
    assert "No finished steps: no latencies." in page
    assert "There are no calls to count the seconds from." in page


def test_one_cell_of_two_was_not_sampled(connect_to: Connect, tmp_path: Path) -> None:
    cells = ({"sampled": False}, {"policy": "passthrough", "samples": 12})
    report = build_report(connect_to(*cells), ["s"], tmp_path / "out", "Half", {}, files=False)
    page = report.page.read_text()
    assert "no server_metrics in the window: cap at 2." in page
    assert "The server was not sampled: cap." in page
    assert "<strong>inconclusive</strong>." in page
    assert "no steady window, so figures are of the whole cell: cap at 2." in page
