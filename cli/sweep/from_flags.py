"""`tutti run`: a sweep from flags only; its suite is stored, so that it can be repeated."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import typer

from tutti.cli.base.failures import ExitCode
from tutti.cli.base.verbs import AsFlowRun, AsJson, Flags, ModelsFile, verdict
from tutti.cli.sweep import suites
from tutti.cli.sweep.run import measured
from tutti.tasks.sweeps import from_flags

Endpoint = Annotated[
    dict[str, Any],
    Flags(suites.SETTINGS, "served_name api_key_env context_tokens python mcp search_index"),
]
"""Of a model that no registry names, and of the tools that it gets."""


@dataclass(frozen=True, kw_only=True)
class RunFlags(suites.SuiteFlags):
    """The flags of `tutti run`."""

    model: Annotated[
        str,
        typer.Option(
            "--model", help="a model in the registry, or the URL of an OpenAI-compatible endpoint"
        ),
    ] = field()  # without it, the default of `SuiteFlags` would stay
    concurrency: suites.Concurrency = "8"
    policies: suites.Policies = "passthrough"
    more: Annotated[
        dict[str, Any],
        Flags(
            suites.SETTINGS,
            "name split rule max_turns parallel combine repeats trials solo scorer question_field "
            "answer_field",
        ),
    ] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """Return the setting of each flag. Raises UsageError."""
        return super().fields() | self.more


@verdict
def run(
    benchmark: Annotated[
        str, typer.Argument(help="a public benchmark: gsm8k, aime-25:16; or stdlib")
    ],
    models: ModelsFile,
    flags: RunFlags,
    endpoint: Endpoint,
    limits: suites.Limits,
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Measure a model with a benchmark, from flags alone: no suite file is needed.

    The suite is kept in TUTTI_HOME; the same command resumes. Exit code 5 if a cell is incomplete.
    """
    settings: dict[str, Any] = flags.fields() | endpoint | limits | {"registry": models}
    model = settings.pop("model")
    kept = asyncio.run(
        from_flags.keep_sweep(benchmark, model, cast("from_flags.RunSettings", settings))
    )
    typer.echo(f"tutti: {kept.words}", err=True)
    with suites.about(kept.path):
        return measured(kept.suite, kept.models, prefect, as_json)
