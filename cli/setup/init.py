"""`tutti init`: writes a model registry, a first suite and its ten questions into a folder."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tutti.cli.base.failures import UsageError
from tutti.cli.base.verbs import AsJson, verb
from tutti.tasks.platform import POCKET

REGISTRY, SUITE, QUESTIONS = "models.yaml", "first.yaml", "first.jsonl"
AGENT, ORCHESTRATED = "agent.yaml", "orchestrator.yaml"

ENTRIES = """\
# The model registry: the models that suites name. `tutti models --check` tests every entry.
models:
  my-model:
    provider: openai                    # openai, vllm, sglang, azure, anthropic and others
    endpoint: http://127.0.0.1:8000/v1  # base URL of an OpenAI-compatible server; change it
    # served_name: Qwen/Qwen3-8B        # the model's name there; left out, it is `my-model`
    # api_key_env: MY_KEY               # the environment variable that holds the key
    context_tokens: 8192                # limit of prompt and answer together
    # max_calls: 32                     # most calls in flight
    # prices: {prompt: 0.1, cached: 0.05, completion: 0.4}   # USD per million tokens
"""
POCKET_ENTRY = """\
  pocket:                               # tutti's small model, which it serves with vLLM on the CPU
    provider: vllm
    checkpoint: %s
    context_tokens: 512
    engine: {kv_blocks: 32, max_sequences: 32, max_batched_tokens: 2048, lora: true}
"""
FIRST_SUITE = """\
# A sweep: benchmark x model x policy x concurrency. One point of this grid is a cell.
name: first
benchmark: gsm8k                        # a public benchmark; here ten questions in its form
data: {source: %s}   # without `data`, the benchmark is downloaded
model: %s                         # an entry of models.yaml
concurrency: [2, 4]                     # sessions at once, one cell for each
policies: [passthrough]                 # also adaptive, cap: the gateway's scheduling
limit: 10                               # only the first questions
sampling: {temperature: 0.0, max_tokens: %d}
limits: {max_turns: 1}
"""
PROBLEMS = (
    ("A box holds 6 pens. How many pens are in 7 boxes?", "6 * 7 = 42", 42),
    ("Ana has 15 apples and gives 6 away. How many are left?", "15 - 6 = 9", 9),
    ("A train has 8 cars with 50 seats each. How many seats are there?", "8 * 50 = 400", 400),
    ("Ben reads 12 pages a day. How many pages does he read in 5 days?", "12 * 5 = 60", 60),
    ("Tea costs 3 dollars and cake 4. What do 2 of each cost?", "2 * (3 + 4) = 14", 14),
    ("There are 36 eggs in cartons of 12. How many cartons are there?", "36 / 12 = 3", 3),
    ("A rope of 20 m loses 4 m and then 5 m. How many metres are left?", "20 - 4 - 5 = 11", 11),
    ("Mia saves 25 dollars a month. How much does she save in 8 months?", "25 * 8 = 200", 200),
    ("A farm has 9 cows and 14 sheep. How many legs do they have?", "(9 + 14) * 4 = 92", 92),
    ("Half of the 48 pupils walk to school. How many pupils walk?", "48 / 2 = 24", 24),
)


@verb
def init(
    folder: Annotated[Path, typer.Argument(help="where to write; made if missing")] = Path("."),
    model_config: Annotated[
        Path | None,
        typer.Option(help="ToolOrchestra's model_config_*.json: the registry gets its addresses"),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(help="ToolOrchestra's tools.json: writes an agent file with its experts"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a commented model registry and a first suite, and show the next commands.

    Existing files are not overwritten.
    """
    files = dict(contents(folder.absolute(), POCKET))
    if model_config is not None or tools is not None:
        files = from_reference(model_config, tools)
    if existing := [name for name in files if (folder / name).exists()]:
        names = ", ".join(str(folder / name) for name in existing)
        raise UsageError(f"not overwritten: {names}; remove it or name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    following = next_commands(folder, list(files))
    if as_json:
        written = [str(folder / name) for name in files]
        typer.echo(json.dumps({"files": written, "next": following}))
        return
    typer.echo(f"wrote {', '.join(str(folder / name) for name in files)}; next:\n")
    typer.echo("\n".join(f"  {command}" for command in following))


def contents(folder: Path, pocket: Path) -> Mapping[str, str]:
    """The files of `folder` by name. The registry has the pocket model if its weights exist."""
    has_pocket = (pocket / "model.safetensors").is_file()
    entries = ENTRIES + (POCKET_ENTRY % json.dumps(str(pocket)) if has_pocket else "")
    model, max_tokens = ("pocket", 128) if has_pocket else ("my-model", 512)
    source = json.dumps(str(folder / QUESTIONS))
    rows = [
        json.dumps({"question": question, "answer": f"{solution}\n#### {answer}"})
        for question, solution, answer in PROBLEMS
    ]
    return {
        REGISTRY: entries,
        SUITE: FIRST_SUITE % (source, model, max_tokens),
        QUESTIONS: "\n".join(rows) + "\n",
    }


def from_reference(model_config: Path | None, tools: Path | None) -> dict[str, str]:
    """The files for ToolOrchestra's settings. Raises UsageError with file, field and value."""
    from tutti.cli.setup.reference_files import (
        Addresses,
        agent_text,
        read_addresses,
        read_tools,
        registry_text,
        suite_text,
    )

    addresses = Addresses() if model_config is None else read_addresses(model_config)
    files = {} if model_config is None else {REGISTRY: registry_text(addresses)}
    if tools is not None:
        files[AGENT] = agent_text(read_tools(tools), addresses, tools)
        files[ORCHESTRATED] = suite_text(addresses, AGENT)
    return files


def next_commands(folder: Path, files: Sequence[str]) -> list[str]:
    """Return the commands to run after `tutti init` wrote `files`, from the current folder."""
    here = folder.absolute() == Path.cwd()
    named = "" if here else f" --models {shlex.quote(str(folder / REGISTRY))}"
    check = [f"tutti models{named} --check"] if REGISTRY in files else []
    suites = [name for name in (SUITE, ORCHESTRATED) if name in files]
    steps = [
        f"tutti sweep {step} {name if here else shlex.quote(str(folder / name))}{named}"
        for name in suites
        for step in ("plan", "run")
    ]
    return [*check, *steps]
