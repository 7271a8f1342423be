"""Tests of the report server on this machine: the files it lists, sends and refuses."""

import http.client
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.listening import listening
from tutti.cli.setup.reports import list_page, report_server

Served = tuple[Path, int]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Yield a store's artifact folder with two reports, and the port that serves them."""
    folder = tmp_path / "artifacts"
    for nth, (name, title) in enumerate((("report-0a", "Sweep first"), ("report-1b", "A &amp; B"))):
        (folder / name).mkdir(parents=True)
        page = folder / name / "index.html"
        page.write_text(f"<head><title>{title}</title></head>")
        os.utime(page, (nth * 60, nth * 60))
    (folder / "report-0a" / "throughput.png").write_bytes(b"\x89PNG")
    (folder / "report-0a" / "rows.parquet").write_bytes(b"PAR1")
    (folder / "index-2c").mkdir()
    (folder / "index-2c" / "index.html").write_text("an index")
    (tmp_path / "catalog.db").write_text("the catalog")
    (folder / "report-3d").mkdir()
    (folder / "report-3d" / "catalog.html").symlink_to(tmp_path / "catalog.db")
    with listening(nullcontext(report_server(folder))) as port:
        yield folder, port


def ask(
    port: int, path: str, method: str = "GET", host: str = "localhost"
) -> tuple[int, bytes, http.client.HTTPMessage]:
    """Return the response to one request, whose path is sent unmodified."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers={"Host": f"{host}:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def test_reports_are_listed_by_title_the_newest_first(served: Served) -> None:
    status, body, headers = ask(served[1], "/")
    text = body.decode()
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert text.index("A &amp; B") < text.index("Sweep first")
    assert '<a href="/report-0a/index.html">Sweep first</a>' in text
    assert "1970-01-01 00:01 UTC" in text and "index-2c" not in text


def test_a_store_without_reports_is_told(tmp_path: Path) -> None:
    assert "None yet" in list_page(tmp_path / "nowhere")


def test_pages_and_figures_are_sent(served: Served) -> None:
    for path in ("/report-0a/index.html", "/report-0a/", "/report-0a/index.html?x=1"):
        status, body, headers = ask(served[1], path)
        assert status == 200 and b"Sweep first" in body, path
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, body, headers = ask(served[1], "/report-0a/throughput.png")
    assert (status, body, headers["Content-Type"]) == (200, b"\x89PNG", "image/png")
    status, body, headers = ask(served[1], "/report-0a/index.html", "HEAD")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 0


@pytest.mark.parametrize(
    "path",
    [
        "/report-0a/../../catalog.db", "/report-0a/..%2f..%2fcatalog.db", "//etc/passwd",
        "/report-0a/rows.parquet", "/report-3d/catalog.html", "/index-2c/index.html",
        "/report-0a", "/report-9z/index.html", "/report-0a/\\..\\..\\catalog.html",
    ],
)  # fmt: skip
def test_nothing_but_reports_is_sent(served: Served, path: str) -> None:
    status, body, _ = ask(served[1], path)
    assert status == 404 and b"the catalog" not in body


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_nothing_can_be_written(served: Served, method: str) -> None:
    assert ask(served[1], "/report-0a/index.html", method)[0] == 404


def test_a_page_of_another_name_cannot_read_reports(served: Served) -> None:
    """The host name is one that another site resolves to this machine (DNS rebinding)."""
    assert ask(served[1], "/", host="evil.example")[0] == 403
