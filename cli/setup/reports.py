"""Serves the store's reports to a browser on this machine, read-only (`make ui`, on port 4201).

Run: ``python -m tutti.cli.setup.reports FOLDER PORT``. In: the store's folder of artifacts. Out:
a list of the reports, and their pages and figures; nothing else of the store is served.
"""

import argparse
import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape, unescape
from http import HTTPStatus
from pathlib import Path

from tutti.tasks.serving.wire import (
    Exchange,
    RouteScreen,
    Server,
    ServerLimits,
    SiteGuard,
    call_permission,
    serve,
)

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
    """A report's page on disk; its name is its folder's."""

    name: str
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
    """Return the file of a report that an address names; None for anything else."""
    named = ADDRESS.fullmatch(address.partition("?")[0])
    if named is None:
        return None
    file = folder / named[1] / (named[2] or PAGE)
    inside = file.resolve().is_relative_to(folder.resolve())  # a link may lead out
    return file if inside and file.is_file() else None


def report_server(folder: Path) -> Server:
    """Return a server of the reports in `folder`, which does not listen yet."""

    def send(exchange: Exchange) -> None:
        address = exchange.target.decode("latin-1")
        if address == "/":
            _send(exchange, list_page(folder).encode(), KINDS[".html"])
        elif (file := file_at(folder, address)) is not None:
            _send(exchange, file.read_bytes(), KINDS[file.suffix])
        else:
            exchange.respond(HTTPStatus.NOT_FOUND, [], b"")

    # Nothing has a body here.
    limits = ServerLimits(body_bytes=0)
    return Server(call_permission, limits, RouteScreen(SiteGuard(), {("GET", "/"): send}))


def _send(exchange: Exchange, body: bytes, kind: str) -> None:
    headers = {"Content-Type": kind, **HEADERS}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    exchange.respond(HTTPStatus.OK, pairs, body)


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
    asyncio.run(serve(report_server(options.folder), options.port))


if __name__ == "__main__":
    main()
