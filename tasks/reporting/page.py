"""The report: one static page with tables and figures inside it, and the figures as files.

In: a store's connection and sweep ids. Out: `index.html`, `*.svg` and `*.png` in a folder. The page
loads nothing from anywhere, so it can be mailed, archived and opened without a network.
"""

import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, TypeVar

from tasks.reporting import plots as figures
from tasks.reporting.drawing import INK, Plot, png, svg
from tasks.reporting.summary import (
    CellSummary,
    FamilyScore,
    pooled_family_scores,
    summarise,
)
from tasks.reporting.terminal import (
    FAMILIES,
    OUTCOME,
    SERVER,
    WORDS,
    family_rows,
    identity,
)
from tasks.reporting.words import findings, gaps

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = TypeVar("Row")


@dataclass(frozen=True)
class Report:
    """What `build_report` wrote, and the rows behind it."""

    page: Path
    plots: dict[str, Path]
    """PNG files by name; a figure without data has none."""
    cells: list[CellSummary]
    scores: list[FamilyScore]


def build_report(
    connection: "DuckDBPyConnection",
    sweep_ids: Sequence[str],
    out: Path,
    title: str,
    notes: Mapping[str, str],
) -> Report:
    """Write the report of a load sweep (the first id) and of model comparisons (the others).

    Without comparisons the load sweep's own scores are shown by family. `notes` are facts for the
    header: machine, model, task set, code version. Each file is renamed into place whole, the page
    last. Raises OSError when `out` cannot be written.
    """
    cells = summarise(connection, sweep_ids[0]) if sweep_ids else []
    scores = pooled_family_scores(connection, sweep_ids[1:] or sweep_ids)
    load = figures.load_plots(cells)
    server = figures.timeline_plots(connection, cells)
    latency = figures.latency_plot(connection, cells)
    families = figures.family_plot(scores)
    drawn = {p.name: p for p in [*load, *server, latency, families] if p.figure is not None}
    svgs = {name: svg(plot) for name, plot in drawn.items()}
    page = _template().substitute(
        title=escape(title),
        notes=_notes(notes),
        findings=_items(findings(cells, scores), "No measurements to summarise."),
        gaps=_items(gaps(cells), "Nothing is missing."),
        load=_figures(load, svgs),
        outcome=_table({**identity(cells), **OUTCOME}, cells),
        server=_figures(server, svgs),
        server_table=_table({**identity(cells), **SERVER}, cells),
        latency=_figures([latency], svgs),
        families=_figures([families], svgs),
        family_table=_table(FAMILIES, family_rows(scores)),
    )
    out.mkdir(parents=True, exist_ok=True)
    pngs = {name: out / f"{name}.png" for name in drawn}
    for name, plot in drawn.items():
        _write(out / f"{name}.svg", svgs[name].encode())
        _write(pngs[name], png(plot))
    _write(out / "index.html", page.encode())
    return Report(out / "index.html", pngs, cells, scores)


def inline_svg(name: str, title: str, text: str) -> str:
    """An SVG file's text as an element of a page: themed, with ids no other figure has."""
    text = text[text.index("<svg") :]  # what is before is for files: XML declaration and doctype
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(
        r'\sxmlns(:xlink)?="[^"]*"', "", text
    )  # in HTML an svg element needs no namespace
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = text.replace(INK, "var(--ink-soft)")  # the theme's own grey, stronger than the mid tone
    text = text.replace("'DejaVu Sans', ", "")  # fall through to the page's own sans serif
    size = re.search(r'<svg[^>]*?\swidth="([\d.]+)pt"', text)
    width = float(size[1]) * 4 / 3 if size else 0.0  # a point is 4/3 of a pixel
    text = re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1)
    # Below 0.6 of its size the text is too small to read; the figure scrolls instead.
    style = f"max-width: {width:.0f}px; min-width: {width * 0.6:.0f}px"
    label = f'<svg role="img" aria-label="{escape(title)}" style="{style}"'
    return text.replace("<svg", label, 1).strip()


def _figures(plots: Sequence[Plot], svgs: Mapping[str, str]) -> str:
    return "\n".join(_figure(plot, svgs.get(plot.name)) for plot in plots)


def _figure(plot: Plot, text: str | None) -> str:
    title = f"<h3>{escape(plot.title)}</h3>"
    if text is None:
        return f'<figure>{title}<p class="missing">{escape(plot.missing)}</p></figure>'
    caption = f"<figcaption>{escape(plot.caption)}</figcaption>"
    drawing = inline_svg(plot.name, plot.title, text)
    return f'<figure>{title}<div class="wide">{drawing}</div>{caption}</figure>'


def _table(columns: Mapping[str, Callable[[Row], str]], rows: Sequence[Row]) -> str:
    if not rows:
        return '<p class="missing">No rows.</p>'
    kinds = {name: ' class="words"' if name in WORDS else "" for name in columns}
    head = "".join(f'<th scope="col"{kinds[name]}>{escape(name)}</th>' for name in columns)
    lines = [
        "".join(f"<td{kinds[name]}>{escape(show(row))}</td>" for name, show in columns.items())
        for row in rows
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>'
        "</table></div>"
    )


def _notes(notes: Mapping[str, str]) -> str:
    pairs = (
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in notes.items()
    )
    return f"<dl>{''.join(pairs)}</dl>" if notes else ""


def _items(sentences: Sequence[str], otherwise: str) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences or [otherwise])
    return f"<ul>{items.replace('n = ', 'n&nbsp;=&nbsp;')}</ul>"


def _template() -> Template:
    return Template(resources.files("tasks.reporting").joinpath("page.html").read_text("utf-8"))


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
