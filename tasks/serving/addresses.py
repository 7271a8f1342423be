"""What is said of served models: before their engines start, and how to call them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tutti.tasks.serving.engine import Engine, engine_lines
from tutti.tasks.serving.first_call import QUESTION, FirstAnswer

if TYPE_CHECKING:
    from rich.console import Console


def served_page(
    url: str, names: Mapping[str, str], answers: Sequence[FirstAnswer], search: str | None
) -> str:
    """Markdown on how to call the models by their names in the registry; `names`: these to the
    served ones.

    `url` is the gateway's, with ``/v1``.
    """
    checked = {answer.model: f"{answer.seconds:.1f} s" for answer in answers}
    rows = [
        f"| {name} | `{served}` | {checked.get(name, 'not called')} |"
        for name, served in names.items()
    ]
    called = next(iter(names))
    body = json.dumps({"model": called, "messages": [QUESTION]})
    lines = [
        f"Base URL of OpenAI-compatible clients: `{url}`, on the machine that runs this flow.",
        "",
        "| model | served as | first call |",
        "|---|---|---|",
        *rows,
        "",
        f"    curl -s {url}/chat/completions -H 'Content-Type: application/json' -d '{body}'",
    ]
    if search is not None:
        question = json.dumps({"queries": ["largest elements of a heap"], "topk": 3})
        command = f"curl -s {search}/retrieve -H 'Content-Type: application/json' -d '{question}'"
        lines += ["", "Search over the standard library's documentation:", "", f"    {command}"]
    return "\n".join(lines)


def announce_served(names: str, address: Mapping[str, str | None], how: str) -> None:
    """Print where the models are reached."""
    also = f"; search at {address['search']}" if address["search"] else ""
    words = f"{names} answers at {address['url']}{also}"
    print(json.dumps({"model": names, **address}) if how == "json" else words, flush=True)


def show_engines(console: "Console", engines: Iterable[Engine]) -> None:
    """Print what is about to be started, a line an engine: server, device, fit and GPUs.

    Raises RegistryError where they do not fit, or a command is refused.
    """
    for name, line in engine_lines(engines).items():
        console.print(f"engine {name}: {line}", markup=False, highlight=False)
