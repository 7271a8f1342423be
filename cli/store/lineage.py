"""`tutti lineage ID`: the ancestors and descendants of an artifact.

In: an artifact's id, a prefix of one, or an attempt's id. Out: a tree as text, a Mermaid chart, or
JSON.
"""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from tutti import storage
from tutti.cli.base.failures import UsageError
from tutti.cli.base.verbs import AsJson, verb

MAX_CANDIDATES = 10
SUFFIXES = {".mmd": "mermaid", ".mermaid": "mermaid", ".json": "json"}
LIST_THEM = 'tutti sql "select artifact_id, kind from artifacts"'


@verb
def lineage(
    artifact: Annotated[
        str, typer.Argument(help="an artifact's or attempt's id, or a prefix of one")
    ],
    up: Annotated[bool, typer.Option("--up", help="show ancestors only")] = False,
    down: Annotated[bool, typer.Option("--down", help="show descendants only")] = False,
    depth: Annotated[int | None, typer.Option(min=1, help="number of generations (all)")] = None,
    drawing: Annotated[
        Literal["text", "mermaid"] | None,
        typer.Option("--format", help="output format (text, or by the suffix of --out)"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="output file, such as x.mmd or x.json")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the ancestors and descendants of an artifact."""
    direction: storage.Direction = "both" if up == down else "up" if up else "down"
    with storage.open_catalog() as catalog:
        graph = storage.walk(catalog, resolve(catalog, artifact), direction, depth)
    by_suffix = SUFFIXES.get(out.suffix.lower(), "text") if out else "text"
    form = "json" if as_json else drawing or by_suffix
    if form == "json":
        text = json.dumps(graph.as_json(), ensure_ascii=False) + "\n"
    else:
        text = storage.RENDERINGS[form](graph)
    if out is None:
        typer.echo(text, nl=False)
        return

    from tutti.cli.sql.statements import writing  # it loads DuckDB

    with writing(out) as path:
        path.write_text(text, encoding="utf-8")
    typer.echo(str(out))


def resolve(catalog: "storage.Catalog", given: str) -> str:
    """Find the artifact by its id, a prefix of its id or hash, or an attempt's id. Raises
    UsageError, which lists the candidates or says how to list ids."""
    found = _beginning_with(catalog, given)
    if len(found) == 1 or given in found:
        return given if given in found else found[0]
    if found and given:
        shown = "\n".join(f"  {each}" for each in found[:MAX_CANDIDATES])
        more = f"\n  and {len(found) - MAX_CANDIDATES} more" if len(found) > MAX_CANDIDATES else ""
        raise UsageError(
            f"{given} is a prefix of {len(found)} ids; give a longer one:\n{shown}{more}"
        )
    with closing(storage.connect(catalog.home, macros=())) as connection:
        sql = "select cell_id from attempts where attempt_id = $given and cell_id != '' limit 1"
        row = connection.execute(sql, {"given": given}).fetchone()
    if row is None:
        raise UsageError(f"no artifact or attempt {given}; to list them: {LIST_THEM}")
    return str(row[0])


def _beginning_with(catalog: "storage.Catalog", given: str) -> list[str]:
    """Return ids that begin with `given`, of artifacts and of parents that are not stored."""
    import sqlalchemy as sa

    from tutti.storage import catalog as cat

    def matching(column: "sa.Column[str]") -> "sa.Select[tuple[str]]":
        begins = column.startswith(given, autoescape=True)
        of_hash = column.contains(f":{given}", autoescape=True)
        return sa.select(column.label("id")).where(begins | of_hash)

    columns = (cat.artifacts.c.artifact_id, cat.artifact_parents.c.parent_id)
    ids = sa.union(*map(matching, columns)).subquery()
    return [row["id"] for row in catalog.rows(sa.select(ids.c.id).order_by(ids.c.id))]
