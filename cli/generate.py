"""`tutti generate`: a model's replies to the rows of a JSONL file, without a score."""

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from tutti.cli.base.failures import ExitCode, UsageError
from tutti.cli.base.verbs import AsJson, Flags, ModelsFile, given, values_of, verdict
from tutti.cli.sweep import suites
from tutti.cli.sweep.from_flags import Endpoint
from tutti.tasks.sweeps import from_flags
from tutti.tasks.sweeps import generate as generating

if TYPE_CHECKING:
    from tutti.flows.generate import GenerateResult

CONCURRENCY = 32


@dataclass(frozen=True, kw_only=True)
class RowFlags:
    """The flags of the rows to generate; each has the name of a field of `GenerateRequest`."""

    samples: Annotated[
        int | None,
        typer.Option(min=1, help="seeds of each row, a file each (one greedy reply, no seed)"),
    ] = None
    first_seed: Annotated[int, typer.Option(min=0, help="the number of the first seed")] = 0
    chunks: Annotated[int, typer.Option(min=1, help="parts of the file, for several machines")] = 1
    chunk: Annotated[
        int | None,
        typer.Option(min=0, help="do this part, from 0; the last one merges all"),
    ] = None
    limit: Annotated[int | None, typer.Option(min=1, help="only the first N rows")] = None
    key: Annotated[str, typer.Option(help="the field of the reply")] = "generation"
    times: Annotated[
        bool, typer.Option("--times", help="also write times and ids, which differ from run to run")
    ] = False


CALLS = "question_field=--field prompt temperature max_tokens reasoning max_turns name"


@dataclass(frozen=True, kw_only=True)
class SolutionFlags:
    """The flags of stored replies to combine."""

    from_solutions: Annotated[
        str | None,
        typer.Option(help="a folder of output-rs*.jsonl, or a glob: combine their replies"),
    ] = None
    combine: Annotated[
        Literal["select", "synthesis"] | None,
        typer.Option(help="of --from-solutions: select one (default), or synthesis of a new one"),
    ] = None
    window: Annotated[
        int | None,
        typer.Option(help="of --from-solutions: most solutions in one prompt (8)"),
    ] = None


@verdict
def generate(
    file: Annotated[Path, typer.Argument(help="a .jsonl file: one object a line")],
    models: ModelsFile,
    model: Annotated[
        str | None,
        typer.Option("--model", help="a model in the registry, or an endpoint's URL"),
    ] = None,
    out: Annotated[Path, typer.Option(help="the folder of the replies")] = Path("generated"),
    *,
    rows: RowFlags,
    solutions: SolutionFlags,
    calls: Annotated[dict[str, Any], Flags(suites.SETTINGS, CALLS)],
    endpoint: Endpoint,
    budget: suites.Budget,
    concurrency: Annotated[int, typer.Option(min=1, help="rows at once")] = CONCURRENCY,
    as_json: AsJson = False,
) -> ExitCode:
    """Generate a model's replies to the rows of a file; nothing is scored.

    OUT/output-rs{S}.jsonl has each row with its reply. The same command resumes and adds seeds.
    Exit code 5 if a file is incomplete.
    """
    suites.checked_reasoning(calls.get("reasoning"))
    settings: dict[str, Any] = calls | endpoint | budget | {"registry": models}
    fields: dict[str, Any] = values_of(rows) | {"solutions": _solutions(solutions)}
    request = generating.GenerateRequest(
        file, model, out, **fields, settings=cast("from_flags.RunSettings", settings)
    )
    done = _generated(request, concurrency, as_json)
    return ExitCode.INCOMPLETE if done.missing else ExitCode.DONE


def _generated(
    request: "generating.GenerateRequest", concurrency: int, as_json: bool
) -> "GenerateResult":
    from tutti.flows.generate import generate_outputs

    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        done = asyncio.run(generate_outputs(request, concurrency))
    typer.echo(json.dumps(_as_json(done)) if as_json else _words(done), nl=as_json)
    _say_what_is_left(done)
    return done


def _solutions(flags: SolutionFlags) -> "generating.GivenSolutions | None":
    values: dict[str, Any] = given(flags)
    source = values.pop("from_solutions", None)
    if source is None and values:
        raise UsageError(f"--{', --'.join(values)}: of stored solutions; add --from-solutions")
    return None if source is None else generating.GivenSolutions(source, **values)


def _say_what_is_left(done: "GenerateResult") -> None:
    for note in done.notes:
        typer.echo(f"tutti: {note}", err=True)
    if done.missing:
        lines = "rows without a reply are left; run the same command again to resume"
        typer.echo(f"{len(done.missing)} files are not whole: {lines}", err=True)


def _words(done: "GenerateResult") -> str:
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
