"""The verbs `index` and `serve`: each runs its flow as a plain function."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.failures import UsageError
from tutti.cli.flow import run_flow
from tutti.cli.verbs import AsJson, ModelsFile, verb
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
    words: Annotated[bool, typer.Option("--words", help="also build BM25")] = False,
    embed_url: Annotated[
        str, typer.Option(help="embed by this OpenAI-compatible endpoint, ending in /v1")
    ] = "",
    embed_model: Annotated[str, typer.Option(help="the endpoint's model")] = "",
    embed_dimensions: Annotated[int, typer.Option(min=0, help="the width of its vectors")] = 0,
    query_template: Annotated[
        str, typer.Option(help="the embedded text of a query, with an instruction if it needs one")
    ] = "{query}",
    faiss: Annotated[
        Path | None,
        typer.Option(help="import this FAISS index of the JSONL file instead of embedding it"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build an index of documents and measure its recall."""
    from tutti.flows.index import build_index
    from tutti.flows.index_parameters import IndexParameters

    asked: dict[str, Any] = {"words": words, "query_template": query_template}
    asked |= {"embed_url": embed_url, "embed_model": embed_model}
    asked |= {"embed_dimensions": embed_dimensions, "faiss": str(faiss or "")}
    asked |= {} if folder is None else {"corpus": str(folder)}
    manifest = run_flow(build_index, False, as_json, IndexParameters.model_validate(asked))
    place = manifest.pop("folder")
    shown = f"{manifest['index_id']}  {manifest['documents']} documents"
    shown = f"{shown}\nrecall {retrieval.recall_line(manifest)}\n{place}"
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
    """A time such as ``90s``, ``30m`` or ``2h`` in minutes. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None or not float(found[1]):
        raise UsageError(f"{text!r}: a time is a number and s, m or h, as 30m")
    return float(found[1]) * {"s": 1 / 60, "m": 1.0, "h": 60.0}[found[2]]
