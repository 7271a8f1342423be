"""The verbs `index` and `serve`: each runs its flow as a plain function.

In: the verb's flags. Out: the lines, or the JSON, that the verb prints.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.cli.flow import run_flow


def build_index(asked: Mapping[str, Any], as_json: bool) -> str:
    """Build (or find) an index and describe it; `asked`: fields of `IndexParameters`.

    Raises ValidationError, RetrievalError, StoreError.
    """
    from tutti.flows.index import build_index as flow
    from tutti.flows.index_parameters import IndexParameters
    from tutti.tasks.retrieval import recall_line

    manifest = run_flow(flow, False, as_json, IndexParameters.model_validate(asked))
    folder = manifest.pop("folder")
    if as_json:
        return json.dumps(manifest)
    words = f"{manifest['index_id']}  {manifest['documents']} documents"
    return f"{words}\nrecall {recall_line(manifest)}\n{folder}"


def serve_model(
    name: str, models: Path, port: int | None, as_json: bool, keep_minutes: float = 0.0
) -> None:
    """Serve until SIGINT or SIGTERM, kept until idle for so long; the flow prints where."""
    from tutti.flows.serve import ServeParameters
    from tutti.flows.serve import serve_models as flow

    parameters = ServeParameters(
        models=(name,),
        minutes=0.0,
        keep_minutes=keep_minutes,
        port=port or 0,
        check=False,
        registry=models,
        announce_as="json" if as_json else "text",
    )
    run_flow(flow, False, False, parameters)
