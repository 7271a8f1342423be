"""`tutti lineage ID`: what an artifact was made from and what was made from it.

In: an artifact's id, the beginning of one, or an attempt's id. Out: a tree as text, or a picture's
source (Mermaid, Graphviz), or the picture itself where Graphviz is installed.
"""

import json
import shutil
import subprocess
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutti.cli.failures import guarded

if TYPE_CHECKING:
    from tutti.storage import Catalog, Direction, Graph

MAX_CANDIDATES = 10
PICTURES = (".svg", ".png", ".pdf")
SOURCES = {".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".json": "json"}
LIST_THEM = 'tutti sql "select artifact_id, kind from artifacts"'


class Drawing(StrEnum):
    """How `tutti lineage` draws."""

    text = "text"
    mermaid = "mermaid"
    dot = "dot"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(lineage)


def lineage(
    artifact: Annotated[
        str, typer.Argument(help="an artifact's or attempt's id, or how one begins")
    ],
    up: Annotated[bool, typer.Option("--up", help="only what it was made from")] = False,
    down: Annotated[bool, typer.Option("--down", help="only what was made from it")] = False,
    depth: Annotated[int | None, typer.Option(min=1, help="steps to go; all if left out")] = None,
    drawing: Annotated[
        Drawing | None,
        typer.Option("--format", help="text unless --out ends in another's name"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="write it to this file: .mmd, .dot, or a picture (.svg, .png, .pdf)"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of text")] = False,
) -> None:
    """Show what an artifact was made from, and what was made from it."""

    def work() -> None:
        from tutti.storage import open_catalog, walk

        direction: Direction = "both" if up == down else "up" if up else "down"
        with open_catalog() as catalog:
            graph = walk(catalog, resolve(catalog, artifact), direction, depth)
        form = _form(drawing.value if drawing else None, as_json, out)
        _put(_drawn(graph, form), out)

    guarded(work)


def resolve(catalog: "Catalog", given: str) -> str:
    """The one artifact meant by an id, the beginning of one or of its hash, or an attempt's id.

    Raises UsageError with the candidates, or with how to list ids.
    """
    from tutti.cli.failures import UsageError

    found = _beginning_with(catalog, given)
    if len(found) == 1 or given in found:
        return given if given in found else found[0]
    if found and given:
        shown = "\n".join(f"  {each}" for each in found[:MAX_CANDIDATES])
        more = f"\n  and {len(found) - MAX_CANDIDATES} more" if len(found) > MAX_CANDIDATES else ""
        raise UsageError(f"{given} begins {len(found)} ids; write more of it:\n{shown}{more}")
    cell = _cell_of_attempt(catalog, given)
    if cell is None:
        raise UsageError(f"no artifact or attempt {given}; to list them: {LIST_THEM}")
    return cell


def _beginning_with(catalog: "Catalog", given: str) -> list[str]:
    """Ids of artifacts, entered or only named as parents, that begin with `given`."""
    import sqlalchemy as sa

    from tutti.storage import catalog as cat

    def matching(column: "sa.Column[str]") -> "sa.Select[tuple[str]]":
        begins = column.startswith(given, autoescape=True)
        of_hash = column.contains(f":{given}", autoescape=True)
        return sa.select(column.label("id")).where(begins | of_hash)

    columns = (cat.artifacts.c.artifact_id, cat.artifact_parents.c.parent_id)
    ids = sa.union(*map(matching, columns)).subquery()
    return [row["id"] for row in catalog.rows(sa.select(ids.c.id).order_by(ids.c.id))]


def _cell_of_attempt(catalog: "Catalog", given: str) -> str | None:
    """The cell of an attempt; None if no part holds it."""
    from tutti.storage import connect

    connection = connect(catalog.home)
    try:
        sql = "select cell_id from attempts where attempt_id = $given limit 1"
        row = connection.execute(sql, {"given": given}).fetchone()
    finally:
        connection.close()
    return str(row[0]) if row and row[0] else None


def _form(drawing: str | None, as_json: bool, out: Path | None) -> str:
    """The form asked for, else the one that the file's name ends in, else text."""
    from tutti.cli.failures import UsageError

    asked = "json" if as_json else drawing
    suffix = "" if out is None else out.suffix.lower()
    if suffix in PICTURES and asked not in (None, "dot"):
        raise UsageError(f"{out}: a picture is drawn from dot; leave out the other format")
    return asked or ("dot" if suffix in PICTURES else SOURCES.get(suffix, "text"))


def _drawn(graph: "Graph", form: str) -> str:
    from tutti.storage import RENDERINGS

    if form == "json":
        return json.dumps(graph.as_json(), ensure_ascii=False) + "\n"
    return RENDERINGS[form](graph)


def _put(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    from tutti.cli.sql.formats import writing

    with writing(out) as path:
        if out.suffix.lower() in PICTURES:
            _picture(text, path, out)
        else:
            path.write_text(text, encoding="utf-8")
    typer.echo(str(out))


def _picture(source: str, path: Path, out: Path) -> None:
    """Let Graphviz draw. Raises UsageError where it is not installed or fails."""
    from tutti.cli.failures import UsageError

    program = shutil.which("dot")
    if program is None:
        raise UsageError(
            f"{out}: pictures need Graphviz's `dot`, which is not installed (apt install graphviz, "
            "brew install graphviz). Without it: --format mermaid, which GitHub and most editors "
            "draw"
        )
    kind = out.suffix.lower().removeprefix(".")
    done = subprocess.run(
        [program, f"-T{kind}", "-o", str(path)], input=source, text=True, capture_output=True
    )
    if done.returncode:
        raise UsageError(f"{out}: dot failed: {done.stderr.strip()}")
