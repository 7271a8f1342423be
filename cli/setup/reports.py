"""Serves the store's reports to a browser on this machine, read-only (`make ui`, on port 4201).

Run: ``python -m tutti.cli.setup.reports FOLDER PORT``. In: the store's folder of artifacts. Out: at
``/`` a list of the reports, the newest first; and the pages and figures of each. Nothing else of
the store is served, and nothing is written.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape, unescape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "127.0.0.1"
PAGE = "index.html"
ADDRESS = re.compile(r"/(report-[0-9a-z-]+)/([\w-]+\.(?:html|png|svg))?")
TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
HEAD_BYTES = 4096  # of a page, which has its title there
KINDS = {".html": "text/html; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml"}
HEADERS = {
    # A transcript in a report is model-written text: no page may run or load anything.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
LIST = """<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Reports of tutti</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }}
body {{ padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .4rem 1rem .4rem 0; border-bottom: 1px solid #8884; }}
td:nth-child(2) {{ white-space: nowrap; }}
@media (max-width: 40rem) {{ th:nth-child(3), td:nth-child(3) {{ display: none; }} }}
</style>
<h1>Reports</h1>
<p>Every report in <code>{folder}</code>, the newest first.</p>
{table}
</html>
"""


@dataclass(frozen=True)
class WrittenReport:
    """A report's page on disk."""

    name: str
    """Its folder's."""
    title: str
    written_at: datetime


def reports_in(folder: Path) -> list[WrittenReport]:
    """The reports of the store, the newest first."""
    found = list(_reports(folder)) if folder.is_dir() else []
    return sorted(found, key=lambda report: report.written_at, reverse=True)


def list_page(folder: Path) -> str:
    """The page that lists the reports."""
    rows = [
        f'<tr><td><a href="/{report.name}/{PAGE}">{escape(report.title)}</a></td>'
        f"<td>{report.written_at:%Y-%m-%d %H:%M} UTC</td><td><code>{report.name}</code></td></tr>"
        for report in reports_in(folder)
    ]
    table = "<table><tr><th>report</th><th>written</th><th>folder</th></tr>\n{}\n</table>"
    none = "<p>None yet: a sweep writes one when it ends.</p>"
    return LIST.format(
        folder=escape(str(folder)), table=table.format("\n".join(rows)) if rows else none
    )


def file_at(folder: Path, address: str) -> Path | None:
    """The file of a report that an address names; None for anything else."""
    named = ADDRESS.fullmatch(address.partition("?")[0])
    if named is None:
        return None
    file = folder / named[1] / (named[2] or PAGE)
    inside = file.resolve().is_relative_to(folder.resolve())  # a link may lead out
    return file if inside and file.is_file() else None


class ReportHandler(BaseHTTPRequestHandler):
    """One request: GET or HEAD."""

    def __init__(self, folder: Path, *args: object) -> None:
        self.folder = folder
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Send a page or a figure."""
        # Another host's name means a page elsewhere that had its name resolved to this machine.
        if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == "/":
            self._send(list_page(self.folder).encode(), KINDS[".html"])
        elif (file := file_at(self.folder, self.path)) is not None:
            self._send(file.read_bytes(), KINDS[file.suffix])
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def report_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the reports in `folder`, on this machine only; port 0 takes a free one."""
    return ThreadingHTTPServer((HOST, port), partial(ReportHandler, folder))


def _reports(folder: Path) -> Iterator[WrittenReport]:
    for page in folder.glob(f"report-*/{PAGE}"):
        name = page.parent.name
        with page.open("rb") as file:
            head = TITLE.search(file.read(HEAD_BYTES).decode(errors="replace"))
        title = unescape(head[1]) if head else name
        yield WrittenReport(name, title, datetime.fromtimestamp(page.stat().st_mtime, UTC))


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tutti.cli.setup.reports", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    options = parser.parse_args(arguments)
    with report_server(options.folder, options.port) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
