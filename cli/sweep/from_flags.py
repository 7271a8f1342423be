"""`tutti run`: a sweep from flags alone. The suite that it makes is kept, so that it can be
repeated."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tutti.cli.failures import ExitCode, conclude
from tutti.cli.options import AsJson, ExitZero, ModelsFile
from tutti.cli.sweep import suites
from tutti.cli.sweep.run import measured

if TYPE_CHECKING:
    from tutti.tasks.sweeps.from_flags import RunSettings


Benchmark = Annotated[str, typer.Argument(help="a public benchmark: gsm8k, aime-25:16; or stdlib")]
ModelOrUrl = Annotated[
    str,
    typer.Option(
        "--model", help="a model in the registry, or the URL of an OpenAI-compatible endpoint"
    ),
]
ServedName = Annotated[
    str | None, typer.Option(help="of a URL: the model's name there (the only one it lists)")
]
ApiKeyEnv = Annotated[
    str | None, typer.Option(help="of a URL: the environment variable that holds the key")
]
ContextTokens = Annotated[
    int | None,
    typer.Option(
        min=64, help="of a URL: most tokens of prompt and answer together (as it reports, or 8192)"
    ),
]
Name = Annotated[str | None, typer.Option(help="the sweep's name (made of benchmark and model)")]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, help="most tokens of one reply (half of the context, at most 16384)"),
]
MaxTurns = Annotated[int | None, typer.Option(min=1, help="most calls of one attempt (8)")]
Repeats = Annotated[int | None, typer.Option(min=1, help="runs of each cell (1)")]
Trials = Annotated[int | None, typer.Option(min=1, help="samples of each task (1)")]
Python = Annotated[
    Literal["once", "session"] | None,
    typer.Option(help="offer the tool python: each program alone, or in one session an attempt"),
]
Mcp = Annotated[str | None, typer.Option(help="offer the tools of an MCP server: URL or command")]
SearchIndex = Annotated[str | None, typer.Option(help="offer the tool search over this index")]
Parallel = Annotated[
    int | None,
    typer.Option(min=2, max=64, help="solve each problem N times at once, then combine (1)"),
]
Combine = Annotated[
    Literal["select", "synthesis"] | None,
    typer.Option(help="of --parallel: pick a solution (the default), or write a new one"),
]
Solo = Annotated[
    bool, typer.Option("--solo", help="of a task set: no user is simulated; it is told at once")
]
Split = Annotated[str | None, typer.Option(help="the split, if not the benchmark's own")]
Rule = Annotated[
    str | None, typer.Option(help="score by this rule, such as strict, if not by the publisher's")
]
Scorer = Annotated[
    str | None, typer.Option(help="of a .jsonl file: exact, numeric, math, choice or judge")
]
QuestionField = Annotated[
    str | None, typer.Option(help="of a .jsonl file (question, prompt or problem)")
]
AnswerField = Annotated[
    str | None, typer.Option(help="of a .jsonl file (answer, target or expected_answer)")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run)


def run(
    benchmark: Benchmark,
    model: ModelOrUrl,
    models: ModelsFile,
    served_name: ServedName = None,
    api_key_env: ApiKeyEnv = None,
    context_tokens: ContextTokens = None,
    concurrency: suites.Concurrency = "8",
    policies: suites.Policies = "passthrough",
    limit: suites.Limit = None,
    name: Name = None,
    source: suites.Source = None,
    ids: suites.Ids = "",
    where: suites.Where = None,
    split: Split = None,
    rule: Rule = None,
    temperature: suites.Temperature = None,
    max_tokens: MaxTokens = None,
    reasoning: suites.Reasoning = None,
    max_turns: MaxTurns = None,
    python: Python = None,
    mcp: Mcp = None,
    search_index: SearchIndex = None,
    parallel: Parallel = None,
    combine: Combine = None,
    repeats: Repeats = None,
    trials: Trials = None,
    judge: suites.Judge = None,
    user: suites.User = None,
    solo: Solo = False,
    scorer: Scorer = None,
    question_field: QuestionField = None,
    answer_field: AnswerField = None,
    agent: suites.Agent = None,
    unsafe_sandbox: suites.UnsafeSandbox = None,
    budget_minutes: suites.BudgetMinutes = None,
    budget_usd: suites.BudgetUsd = None,
    prefect: Annotated[bool, typer.Option(help="run as a Prefect flow run")] = False,
    exit_zero: ExitZero = False,
    as_json: AsJson = False,
) -> None:
    """Measure a model with a benchmark, from flags alone: no suite file is needed.

    The suite is kept in TUTTI_HOME; the same command resumes. Exit code 5 if a cell is incomplete.
    """
    settings: RunSettings = {"registry": models, "name": name, "served_name": served_name}
    settings |= {"api_key_env": api_key_env, "context_tokens": context_tokens, "agent": agent}
    settings |= {"policies": suites.names_in(policies), "limit": limit, "source": source}
    settings |= {"ids": suites.names_in(ids), "where": where, "temperature": temperature}
    settings |= {"max_tokens": max_tokens, "max_turns": max_turns, "repeats": repeats}
    settings |= {"trials": trials, "judge": judge, "user": user, "search_index": search_index}
    settings |= {"unsafe_sandbox": unsafe_sandbox, "budget_usd": budget_usd, "scorer": scorer}
    settings |= {"budget_minutes": budget_minutes, "solo": solo or None, "python": python}
    settings |= {"question_field": question_field, "answer_field": answer_field, "mcp": mcp}
    settings |= {"parallel": parallel, "combine": combine, "split": split, "rule": rule}
    settings |= {"reasoning": reasoning}

    asked = (benchmark, model, settings, concurrency)
    conclude(lambda: _measured(*asked, prefect, as_json), exit_zero)


def _measured(
    benchmark: str,
    model: str,
    settings: "RunSettings",
    concurrency: str,
    prefect: bool,
    as_json: bool,
) -> ExitCode:
    """Keep the suite and run it."""
    from tutti.tasks.sweeps.from_flags import keep_sweep

    levels: RunSettings = {"concurrency": suites.levels_in(concurrency)}
    kept = asyncio.run(keep_sweep(benchmark, model, settings | levels))
    typer.echo(f"tutti: {kept.words}", err=True)
    with suites.about(kept.path):
        return measured(kept.suite, kept.models, prefect, as_json)
