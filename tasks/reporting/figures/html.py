"""A report's page: sections of figures, tables and texts, by the template `page.html`.

In: sections, and the report's content. Out: `index.html` in a folder, on request figures beside it.
The page loads nothing from elsewhere, so it can be mailed, archived and opened without a network.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from tutti.storage import replacing
from tutti.tasks.reporting.figures.drawing import THEME, Plot, png, svg, variable
from tutti.tasks.reporting.measures.failures import MESSAGE_CHARACTERS, Transcript
from tutti.tasks.reporting.measures.table import LONG, WORDS, Table

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

VERDICTS = frozenset({"better", "worse", "same", "inconclusive"})
CONSTANTS = {
    "light": " ".join(f"{variable(colour)}: {colour};" for colour in THEME),
    "dark": " ".join(f"{variable(colour)}: {dark};" for colour, dark in THEME.items()),
    "VERDICTS": VERDICTS,
    "WORDS": WORDS,
    "LONG": LONG,
    "MESSAGE_CHARACTERS": MESSAGE_CHARACTERS,
    "TOOL_CHARACTERS": 600,  # of one tool call's arguments
}


@dataclass(frozen=True)
class Figures:
    plots: Sequence[Plot]
    beside: bool = False
    macro: ClassVar[str] = "figures"


@dataclass(frozen=True)
class Transcripts:
    """Transcripts by attempt id, folded; nothing if there are none."""

    shown: Mapping[str, Transcript]
    macro: ClassVar[str] = "transcripts"


@dataclass(frozen=True)
class Quote:
    text: str
    title: str = ""
    remarks: Sequence[str] = ()
    folded: bool = False
    macro: ClassVar[str] = "quote"


Part = Table | Figures | Transcripts | Quote


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Part]
    note: str = ""


@dataclass(frozen=True)
class PageReport:
    """A written page, and its content."""

    page: Path
    plots: dict[str, Path] = field(default_factory=dict)
    """PNG files by name, where they were asked for; a figure without data has none."""
    findings: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    """Warnings that limit the validity of the whole report."""


Written = TypeVar("Written", bound=PageReport)


def write_page(
    report: Written,
    title: str,
    facts: Mapping[str, str],
    sections: Sequence[Section],
    files: bool = False,
) -> Written:
    """Write a report's page and create its folder; with `files` also each figure as SVG and PNG.

    `facts` are for the header. Each file is renamed into place when it is complete, the page last.
    Returns the report with its figures' files. Raises OSError if the folder cannot be written.
    """
    sections = [section for section in sections if section.parts]
    parts = [part for section in sections for part in section.parts]
    plots = [plot for part in parts if isinstance(part, Figures) for plot in part.plots]
    drawn = {plot.name: plot for plot in plots if plot.figure is not None}
    svgs = {name: svg(plot) for name, plot in drawn.items()}
    out = report.page.parent
    out.mkdir(parents=True, exist_ok=True)
    template = _environment().get_template("page.html")
    text = template.render(report=report, title=title, facts=facts, sections=sections, svgs=svgs)
    contents = {report.page: text.encode()}
    for name, plot in drawn.items() if files else ():
        pair = {out / f"{name}.svg": svgs[name].encode(), out / f"{name}.png": png(plot)}
        contents = pair | contents  # the page last
    for path, content in contents.items():
        with replacing(path) as unfinished:
            unfinished.write_bytes(content)
    return replace(report, plots={name: out / f"{name}.png" for name in drawn} if files else {})


def inline_svg(text: str, plot: Plot) -> "Markup":
    """Return an SVG file's text as an element of a page: themed, with unique ids."""
    from markupsafe import Markup

    text = text[text.index("<svg") :]  # what is before is for files: XML declaration and doctype
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    # In HTML an svg element needs no namespace.
    text = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{plot.name}-", text)
    for colour in THEME:
        text = text.replace(colour, f"var({variable(colour)})")
    text = text.replace("'DejaVu Sans', ", "")  # fall through to the page's own sans serif
    text = re.sub(r"\n\s*", "\n", text)
    size = re.search(r'<svg[^>]*?\swidth="([\d.]+)pt"', text)
    width = float(size[1]) * 4 / 3 if size else 0.0  # a point is 4/3 of a pixel
    for name in ("width", "height"):
        text = re.sub(rf'(<svg[^>]*?)\s{name}="[^"]*"', r"\1", text, count=1)
    label = f'<svg role="img" aria-label="{escape(plot.title)}" style="--width: {width:.0f}px"'
    return Markup(text.replace("<svg", label, 1).strip())


def emphasised(sentence: str) -> "Markup":
    from markupsafe import Markup

    text = re.sub(
        rf": ({'|'.join(sorted(VERDICTS))})\.", r": <strong>\1</strong>.", escape(sentence)
    )
    return Markup(text.replace("n = ", "n&nbsp;=&nbsp;"))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tutti.tasks.reporting", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(CONSTANTS)
    environment.filters |= {"inline_svg": inline_svg, "emphasised": emphasised}
    environment.tests["identifier"] = re.compile(r"[a-z_]+:[0-9a-f]{16}").fullmatch
    return environment
