"""The verbs `index` and `serve`: each runs its flow as a plain function."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.base.failures import UsageError
from tutti.cli.base.flow import run_flow
from tutti.cli.base.verbs import AsJson, Flags, ModelsFile, verb
from tutti.tasks import retrieval


@verb
def index(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="a folder or file of documents (markdown, text, HTML, PDF, JSONL); "
            "default: the standard library's documentation"
        ),
    ] = None,
    *,
    given: Annotated[
        dict[str, Any],
        Flags(
            "flows/index_parameters.py:IndexParameters",
            "kind words workers cluster embed_url embed_model embed_dimensions template "
            "query_template faiss",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Build an index of documents and measure its recall."""
    from tutti.flows.index import build_index
    from tutti.flows.index_parameters import IndexParameters

    asked = given if folder is None else given | {"corpus": str(folder)}
    manifest = run_flow(build_index, False, as_json, IndexParameters.model_validate(asked))
    shown = f"{manifest['index_id']}  {manifest['documents']} documents"
    shown = f"{shown}\nrecall {retrieval.recall_line(manifest)}\n{manifest['folder']}"
    typer.echo(json.dumps(manifest) if as_json else shown)


@verb
def serve(
    model: Annotated[str, typer.Argument(help="a model in the registry")] = "pocket",
    port: Annotated[int | None, typer.Option(help="the gateway's port (a free one)")] = None,
    keep: Annotated[
        str,
        typer.Option(
            help="let other runs use the engine, and end when idle for so long: 30m, 2h, 90s",
            metavar="TIME",
        ),
    ] = "",
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> None:
    """Serve a model behind the gateway until Ctrl-C."""
    from tutti.flows.serve import ServeParameters, serve_models

    parameters = ServeParameters(
        models=(model,),
        minutes=0.0,
        keep_minutes=minutes_of(keep) if keep else 0.0,
        port=port or 0,
        check=False,
        registry=models,
        announce_as="json" if as_json else "text",
    )
    run_flow(serve_models, False, False, parameters)


def minutes_of(text: str) -> float:
    """Convert a time such as ``90s``, ``30m`` or ``2h`` to minutes. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None or not float(found[1]):
        raise UsageError(f"{text!r}: a time is a number and s, m or h, as 30m")
    return float(found[1]) * {"s": 1 / 60, "m": 1.0, "h": 60.0}[found[2]]
