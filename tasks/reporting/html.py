"""Pieces of the report's page: tables, figures, lists, transcripts, as HTML text.

In: rows with their columns, plots, transcripts. Out: elements, every text in them escaped. Nothing
is loaded from anywhere.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

from tutti.tasks.reporting.failures import MESSAGE_CHARACTERS, Failure, Transcript
from tutti.tasks.reporting.figures.drawing import THEME, Plot, variable
from tutti.tasks.reporting.text.columns import FAILURES, WORDS, Row, with_values

VERDICTS = frozenset({"better", "worse", "same", "inconclusive"})
ENDED_BY = ("status", "stop_reason", "error_type", "error_message")
TITLE_CHARACTERS = 100  # of a transcript's question
TOOL_CHARACTERS = 600  # of one tool call's arguments


def section(title: str, *parts: str, note: str = "") -> str:
    """A part of the page under a heading."""
    body = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}{said_below(note)}\n</section>"


def said_below(note: str) -> str:
    """How a table or figure above is to be read; nothing for nothing."""
    return f'\n<p class="note">{escape(note)}</p>' if note else ""


def subsection(title: str, body: str) -> str:
    """A heading within a section, and what stands under it."""
    return f"<h3>{escape(title)}</h3>\n{body}"


def figures(plots: Sequence[Plot], svgs: Mapping[str, str], beside: bool = False) -> str:
    """Figures one under another, or `beside` each other where the page is wide."""
    body = "\n".join(_figure(plot, svgs.get(plot.name)) for plot in plots)
    return f'<div class="pair">\n{body}\n</div>' if beside else body


def inline_svg(name: str, title: str, text: str) -> str:
    """An SVG file's text as an element of a page: themed, with ids no other figure has."""
    text = text[text.index("<svg") :]  # what is before is for files: XML declaration and doctype
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    # In HTML an svg element needs no namespace.
    text = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    for colour in THEME:
        text = text.replace(colour, f"var({variable(colour)})")
    text = text.replace("'DejaVu Sans', ", "")  # fall through to the page's own sans serif
    text = re.sub(r"\n\s*", "\n", text)
    size = re.search(r'<svg[^>]*?\swidth="([\d.]+)pt"', text)
    width = float(size[1]) * 4 / 3 if size else 0.0  # a point is 4/3 of a pixel
    text = re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1)
    label = f'<svg role="img" aria-label="{escape(title)}" style="--width: {width:.0f}px"'
    return text.replace("<svg", label, 1).strip()


def theme() -> tuple[str, str]:
    """The figures' colours as CSS variables, on light and on dark paper."""
    light = " ".join(f"{variable(colour)}: {colour};" for colour in THEME)
    return light, " ".join(f"{variable(colour)}: {dark};" for colour, dark in THEME.items())


def table(columns: Mapping[str, Callable[[Row], str]], found: Sequence[Row]) -> str:
    """A table of rows; verdicts stand out. A column that no row has a value in is left out."""
    if not found:
        return '<p class="missing">No rows.</p>'
    columns = with_values(columns, found)
    cells = [{name: _cell(name, show(row)) for name, show in columns.items()} for row in found]
    return _table(list(columns), cells)


def failure_table(found: Sequence[Failure], shown: Mapping[str, Transcript]) -> str:
    """Failures with links to the transcripts that the page holds."""
    if not found:
        return '<p class="missing">No attempt failed or was wrong.</p>'
    columns = with_values(FAILURES, found)
    lines = []
    for failure in found:
        line = {name: _cell(name, show(failure)) for name, show in columns.items()}
        known = [each for each in failure.examples if each in shown]
        places = [list(shown).index(each) + 1 for each in known]
        links = ", ".join(f'<a href="#transcript-{nth}">{nth}</a>' for nth in places)
        lines.append(line | {"transcripts": f"<td>{links or '–'}</td>"})  # noqa: RUF001
    return _table([*columns, "transcripts"], lines)


def transcript_list(shown: Mapping[str, Transcript]) -> str:
    """Transcripts, folded; empty when there are none."""
    folded = [_transcript(nth, each) for nth, each in enumerate(shown.values(), 1)]
    return "\n".join(folded)


def notes(facts: Mapping[str, str]) -> str:
    """Facts for the header."""
    pairs = (
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in facts.items()
    )
    return f"<dl>{''.join(pairs)}</dl>" if facts else ""


def alarms(sentences: Sequence[str]) -> str:
    """In red, one below the other; nothing where there is none."""
    return "\n".join(f'<p class="alarm" role="alert">{escape(each)}</p>' for each in sentences)


def items(sentences: Sequence[str], otherwise: str) -> str:
    """A list of sentences, verdicts in them in bold."""
    pattern = re.compile(rf": ({'|'.join(sorted(VERDICTS))})\.")
    lines = (
        pattern.sub(r": <strong>\1</strong>.", escape(sentence)).replace("n = ", "n&nbsp;=&nbsp;")
        for sentence in sentences or [otherwise]
    )
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


def _figure(plot: Plot, text: str | None) -> str:
    title = f"<h3>{escape(plot.title)}</h3>"
    if text is None:
        return f'<figure>{title}<p class="missing">{escape(plot.missing)}</p></figure>'
    caption = f"<figcaption>{escape(plot.caption)}</figcaption>" if plot.caption else ""
    drawing = inline_svg(plot.name, plot.title, text)
    return f'<figure>{title}<div class="wide">{drawing}</div>{caption}</figure>'


def _table(columns: Sequence[str], lines: Sequence[Mapping[str, str]]) -> str:
    head = "".join(f'<th scope="col"{_kind(name)}>{escape(name)}</th>' for name in columns)
    body = "\n".join("<tr>" + "".join(line[name] for name in columns) + "</tr>" for line in lines)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>'
        "</table></div>"
    )


def _cell(name: str, text: str) -> str:
    if text in VERDICTS:
        return f'<td class="words {text}">{text}</td>'
    shown = escape(text)
    if re.fullmatch(r"[a-z_]+:[0-9a-f]{16}", text):
        shown = f"<code>{shown}</code>"
    return f"<td{_kind(name)}>{shown}</td>"


def _kind(name: str) -> str:
    if name in ("window rule", "error", "latest message", "why"):
        return ' class="words long"'
    return ' class="words"' if name in WORDS else ""


def _transcript(nth: int, shown: Transcript) -> str:
    a = shown.attempt
    ended = " · ".join(str(a[key]) for key in ENDED_BY if a[key])
    load = f"{a['policy']} at {a['concurrency']}" if a["concurrency"] else ""
    where = ", ".join(part for part in (f"task {a['task_id']}", a["model"], load) if part)
    side = f"{a['side']}: " if a.get("side") else ""
    said, before = [], 0
    for message in shown.messages:
        if message["nth"] > before + 1:
            said.append(f'<p class="note">{message["nth"] - before - 1} messages left out</p>')
        before = message["nth"]
        said.append(_message(message))
    ask = f"tutti sql \"from transcript('{a['attempt_id']}')\""
    # The id is inside: following a link to it opens the fold around it.
    return (
        f"<details><summary>{nth}. {side}{escape(_question(shown))}: {escape(ended)}</summary>"
        f'<div class="transcript" id="transcript-{nth}"><p class="note">{escape(where)}. '
        f"All of it: <code>{escape(ask)}</code></p>{''.join(said)}</div></details>"
    )


def _question(shown: Transcript) -> str:
    """What the attempt was asked, in a line: the last user message before the first answer."""
    asked = ""
    for message in shown.messages:
        if message["role"] == "assistant":
            break
        if message["role"] == "user" and message["content"]:
            asked = " ".join(str(message["content"]).split())
    if not asked:
        return f"task {shown.attempt['task_id']}"
    return asked if len(asked) <= TITLE_CHARACTERS else f"{asked[: TITLE_CHARACTERS - 1]}…"


def _message(message: Mapping[str, object]) -> str:
    role = escape(" ".join(str(message[key]) for key in ("role", "name") if message[key]))
    parts = [f"<h4>{role}</h4>"]
    if message["reasoning"]:
        parts.append(f'<pre class="thought">{escape(str(message["reasoning"]))}</pre>')
    if message["content"]:
        parts.append(f"<pre>{escape(str(message['content']))}</pre>")
    calls = message["tool_calls"]
    for call in calls if isinstance(calls, list) else []:
        arguments = str(call["arguments"])[:TOOL_CHARACTERS]
        parts.append(f"<pre>→ {escape(str(call['name']))} {escape(arguments)}</pre>")
    size = message["characters"]
    if isinstance(size, int) and size > MESSAGE_CHARACTERS:
        parts.append(f'<p class="note">cut: {size:,} characters in all</p>')
    return "".join(parts)
