"""`tutti run`: a sweep from flags alone. The suite that it makes is kept, so that it can be
repeated."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

import typer

from tutti.cli.failures import ExitCode
from tutti.cli.sweep import suites
from tutti.cli.sweep.run import measured
from tutti.cli.verbs import AsFlowRun, AsJson, ModelsFile, values_of, verdict
from tutti.tasks.sweeps import from_flags


@dataclass(frozen=True, kw_only=True)
class EndpointFlags:
    """The flags of a model that no registry names, and of the tools that it gets."""

    served_name: Annotated[
        str | None, typer.Option(help="of a URL: the model's name there (the only one it lists)")
    ] = None
    api_key_env: Annotated[
        str | None, typer.Option(help="of a URL: the environment variable that holds the key")
    ] = None
    context_tokens: Annotated[
        int | None,
        typer.Option(
            min=64,
            help="of a URL: most tokens of prompt and answer together (as it reports, or 8192)",
        ),
    ] = None
    python: Annotated[
        Literal["once", "session"] | None,
        typer.Option(
            help="offer the tool python: each program alone, or in one session an attempt"
        ),
    ] = None
    mcp: Annotated[
        str | None, typer.Option(help="offer the tools of an MCP server: URL or command")
    ] = None
    search_index: Annotated[
        str | None, typer.Option(help="offer the tool search over this index")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunFlags(suites.SuiteFlags):
    """The flags of `tutti run`; each has the name of the setting."""

    model: Annotated[
        str,
        typer.Option(
            "--model", help="a model in the registry, or the URL of an OpenAI-compatible endpoint"
        ),
    ] = field()  # without it, the default of `SuiteFlags` would stay
    concurrency: suites.Concurrency = "8"
    policies: suites.Policies = "passthrough"
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="most tokens of one reply (half of the context, at most 16384)"),
    ] = None
    name: Annotated[
        str | None, typer.Option(help="the sweep's name (made of benchmark and model)")
    ] = None
    split: Annotated[str | None, typer.Option(help="the split, if not the benchmark's own")] = None
    rule: Annotated[
        str | None,
        typer.Option(help="score by this rule, such as strict, if not by the publisher's"),
    ] = None
    max_turns: Annotated[int | None, typer.Option(min=1, help="most calls of one attempt (8)")] = (
        None
    )
    parallel: Annotated[
        int | None,
        typer.Option(min=2, max=64, help="solve each problem N times at once, then combine (1)"),
    ] = None
    combine: Annotated[
        Literal["select", "synthesis"] | None,
        typer.Option(help="of --parallel: pick a solution (the default), or write a new one"),
    ] = None
    repeats: Annotated[int | None, typer.Option(min=1, help="runs of each cell (1)")] = None
    trials: Annotated[int | None, typer.Option(min=1, help="samples of each task (1)")] = None
    solo: Annotated[
        bool | None,
        typer.Option("--solo", help="of a task set: no user is simulated; it is told at once"),
    ] = None
    scorer: Annotated[
        str | None, typer.Option(help="of a .jsonl file: exact, numeric, math, choice or judge")
    ] = None
    question_field: Annotated[
        str | None, typer.Option(help="of a .jsonl file (question, prompt or problem)")
    ] = None
    answer_field: Annotated[
        str | None, typer.Option(help="of a .jsonl file (answer, target or expected_answer)")
    ] = None


@verdict
def run(
    benchmark: Annotated[
        str, typer.Argument(help="a public benchmark: gsm8k, aime-25:16; or stdlib")
    ],
    models: ModelsFile,
    flags: RunFlags,
    endpoint: EndpointFlags,
    limits: suites.LimitFlags,
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Measure a model with a benchmark, from flags alone: no suite file is needed.

    The suite is kept in TUTTI_HOME; the same command resumes. Exit code 5 if a cell is incomplete.
    """
    settings: dict[str, Any] = flags.fields() | values_of(endpoint, limits) | {"registry": models}
    model = settings.pop("model")
    kept = asyncio.run(
        from_flags.keep_sweep(benchmark, model, cast("from_flags.RunSettings", settings))
    )
    typer.echo(f"tutti: {kept.words}", err=True)
    with suites.about(kept.path):
        return measured(kept.suite, kept.models, prefect, as_json)
