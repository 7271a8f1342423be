"""`tutti generate`: a model's replies to the rows of a JSONL file, without a score."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import ExitCode, UsageError, conclude
from tutti.cli.options import AsJson, ExitZero, ModelsFile
from tutti.cli.sweep import suites
from tutti.cli.sweep.from_flags import (
    ApiKeyEnv,
    ContextTokens,
    Mcp,
    Python,
    SearchIndex,
    ServedName,
)

if TYPE_CHECKING:
    from tutti.flows.generate import GenerateResult
    from tutti.tasks.sweeps.from_flags import RunSettings
    from tutti.tasks.sweeps.generate import GenerateRequest, GivenSolutions

CONCURRENCY = 32
File = Annotated[Path, typer.Argument(help="a .jsonl file: one object a line")]
ModelOrUrl = Annotated[
    str | None,
    typer.Option("--model", help="a model in the registry, or an endpoint's URL"),
]
Out = Annotated[Path, typer.Option(help="the folder of the replies")]
Field = Annotated[
    str | None,
    typer.Option(help="the question's field, or a list of messages (question, prompt, problem)"),
]
PromptText = Annotated[
    str | None,
    typer.Option(help="a template over the rows' fields: '{question}', or a prompt's .yaml file"),
]
Samples = Annotated[
    int | None,
    typer.Option(min=1, help="seeds of each row, a file each (one greedy reply, no seed)"),
]
FirstSeed = Annotated[int, typer.Option(min=0, help="the number of the first seed")]
Chunks = Annotated[int, typer.Option(min=1, help="parts of the file, for several machines")]
Chunk = Annotated[
    int | None,
    typer.Option(min=0, help="do this part, from 0; the last one merges all"),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, help="most tokens of one reply (half of the context)"),
]
Temperature = Annotated[
    float | None, typer.Option(min=0.0, help="0 is greedy (0.7 with --samples, else 0)")
]
MaxTurns = Annotated[int | None, typer.Option(min=1, help="with tools: most calls of a row (8)")]
Key = Annotated[str, typer.Option(help="the field of the reply")]
Times = Annotated[
    bool, typer.Option("--times", help="also write times and ids, which differ from run to run")
]
FromSolutions = Annotated[
    str | None,
    typer.Option(help="a folder of output-rs*.jsonl, or a glob: combine their replies"),
]
Combine = Annotated[
    str | None,
    typer.Option(help="of --from-solutions: select one (default), or synthesis of a new one"),
]
Window = Annotated[
    int | None,
    typer.Option(help="of --from-solutions: most solutions in one prompt (8)"),
]
Sessions = Annotated[int, typer.Option(min=1, help="rows at once")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("generate")(generate)


def generate(
    file: File,
    models: ModelsFile,
    model: ModelOrUrl = None,
    out: Out = Path("generated"),
    field: Field = None,
    prompt: PromptText = None,
    samples: Samples = None,
    first_seed: FirstSeed = 0,
    chunks: Chunks = 1,
    chunk: Chunk = None,
    from_solutions: FromSolutions = None,
    combine: Combine = None,
    window: Window = None,
    limit: Annotated[int | None, typer.Option(min=1, help="only the first N rows")] = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    concurrency: Sessions = CONCURRENCY,
    python: Python = None,
    mcp: Mcp = None,
    search_index: SearchIndex = None,
    key: Key = "generation",
    times: Times = False,
    reasoning: suites.Reasoning = None,
    max_turns: MaxTurns = None,
    served_name: ServedName = None,
    api_key_env: ApiKeyEnv = None,
    context_tokens: ContextTokens = None,
    name: Annotated[str | None, typer.Option(help="the sweep's name in the store")] = None,
    budget_minutes: suites.BudgetMinutes = None,
    budget_usd: suites.BudgetUsd = None,
    exit_zero: ExitZero = False,
    as_json: AsJson = False,
) -> None:
    """Generate a model's replies to the rows of a file; nothing is scored.

    OUT/output-rs{S}.jsonl has each row with its reply. The same command resumes and adds seeds.
    Exit code 5 if a file is not whole.
    """
    settings: RunSettings = {"registry": models, "name": name, "served_name": served_name}
    settings |= {"api_key_env": api_key_env, "context_tokens": context_tokens}
    settings |= {"question_field": field, "prompt": prompt, "temperature": temperature}
    settings |= {"max_tokens": max_tokens, "max_turns": max_turns, "python": python}
    settings |= {"mcp": mcp, "search_index": search_index, "reasoning": reasoning}
    settings |= {"budget_minutes": budget_minutes, "budget_usd": budget_usd}

    def work() -> ExitCode:
        from tutti.tasks.sweeps.generate import GenerateRequest

        given: dict[str, Any] = {"samples": samples, "first_seed": first_seed, "chunks": chunks}
        given |= {"chunk": chunk, "limit": limit, "key": key, "times": times}
        given |= {"solutions": _solutions(from_solutions, combine, window)}
        suites.checked_reasoning(reasoning)
        request = GenerateRequest(file, model, out, **given, settings=settings)
        done = _generated(request, concurrency, as_json)
        return ExitCode.INCOMPLETE if done.missing else ExitCode.DONE

    conclude(work, exit_zero)


def _generated(request: "GenerateRequest", concurrency: int, as_json: bool) -> "GenerateResult":
    """Do it, and print what became of it."""
    from tutti.flows.generate import generate_outputs

    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        done = asyncio.run(generate_outputs(request, concurrency))
    typer.echo(json.dumps(_as_json(done)) if as_json else _words(done), nl=as_json)
    _say_what_is_left(done)
    return done


def _solutions(
    place: str | None, combine: str | None, window: int | None
) -> "GivenSolutions | None":
    """What the flags name. Raises UsageError."""
    from tutti.tasks.sweeps.generate import GivenSolutions

    if place is None:
        for flag, value in (("--combine", combine), ("--window", window)):
            if value is not None:
                raise UsageError(f"{flag} {value}: of stored solutions; add --from-solutions")
        return None
    if combine not in (None, "select", "synthesis"):
        raise UsageError(f"--combine: {combine!r} is neither select nor synthesis")
    given: dict[str, Any] = {"combine": combine, "window": window}
    return GivenSolutions(place, **{k: v for k, v in given.items() if v is not None})


def _say_what_is_left(done: "GenerateResult") -> None:
    for note in done.notes:
        typer.echo(f"tutti: {note}", err=True)
    if done.missing:
        lines = "rows without a reply are left; run the same command again to resume"
        typer.echo(f"{len(done.missing)} files are not whole: {lines}", err=True)


def _words(done: "GenerateResult") -> str:
    """The files written, a line each; what other machines owe."""
    lines = [str(path) for path in done.written]
    if not lines and not done.missing and not done.chunks_missing:
        lines = ["all files are there; nothing was generated"]
    if owed := done.chunks_missing:
        more = f" and {len(owed) - 1} more are" if len(owed) > 1 else " is"
        lines.append(f"not merged yet: {owed[0]}{more} missing")
    return "".join(f"{line}\n" for line in lines)


def _as_json(done: "GenerateResult") -> dict[str, Any]:
    named = ("written", "missing", "chunks_missing")
    files = {name: [str(path) for path in getattr(done, name)] for name in named}
    return {"rows": done.rows, **files, "sweeps": done.sweeps}
