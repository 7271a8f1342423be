"""What the `sweep` verbs share: finding the suite file, and the flags that change its fields."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import UsageError
from tutti.tasks.project import SUITES

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec import Suite

SuiteName = Annotated[str, typer.Argument(help="a suite file, or its name in deployments/suites")]
Source = Annotated[Path | None, typer.Option(help="the benchmark's data: a file or folder")]
Limit = Annotated[int | None, typer.Option(min=1, help="only the first N tasks")]
Ids = Annotated[str, typer.Option(help="only these tasks, separated by commas")]
Where = Annotated[
    str | None, typer.Option(help="SQL filter on the tasks' attributes: subject = 'physics'")
]
Judge = Annotated[str | None, typer.Option(help="the model that judges answers")]
User = Annotated[str | None, typer.Option(help="the model that simulates the user")]
Agent = Annotated[str | None, typer.Option(help="an orchestrator agent: its name or file")]
BudgetMinutes = Annotated[
    float | None,
    typer.Option(help="stop starting samples after N minutes; run again to resume"),
]
BudgetUsd = Annotated[
    float | None,
    typer.Option(help="stop starting samples after N USD are spent; run again to resume"),
]
Concurrency = Annotated[
    str, typer.Option(help="sessions at once, one cell for each, separated by commas: 4,16")
]
Policies = Annotated[str, typer.Option(help="scheduling policies to compare: passthrough,adaptive")]
Model = Annotated[str | None, typer.Option(help="a model in the registry")]
Temperature = Annotated[float | None, typer.Option(min=0.0, help="0 is greedy")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="most tokens of one reply")]
Reasoning = Annotated[
    str | None,
    typer.Option(help="auto, off, or the tag that ends it, as </think>: what follows is the reply"),
]
UnsafeSandbox = Annotated[
    bool | None,
    typer.Option(
        "--unsafe-sandbox",
        help="run model-written programs unsandboxed if this machine has no sandbox",
    ),
]
Experts = Annotated[
    list[str] | None,
    typer.Option(
        "--expert", help="NAME=MODEL: replace a model that the agent file names; repeatable"
    ),
]


def suite_of(name: str, ids: str = "", experts: list[str] | None = None, **fields: Any) -> "Suite":
    """Read the suite `name` and set the `fields` that are not None.

    Raises SuiteError, UsageError.
    """
    from tutti.tasks.sweeps.spec import read_suite, with_fields

    fields["experts"] = None if experts is None else dict(map(_named, experts))
    fields["ids"] = names_in(ids)
    if fields.get("model") is not None:
        fields["models"] = ()  # the flag's model in place of all of them
    return with_fields(read_suite(path_of(name)), fields)


def is_night_file(path: Path, given: Sequence[Any]) -> bool:
    """Whether a path is a night file's. `given` are flags that change a suite, which it refuses:
    its stages name their own. Raises UsageError for one that is given."""
    from tutti.tasks.nights import is_night

    if not (path.is_file() and is_night(path)):
        return False
    if any(each not in (None, "", [], ()) and each is not False for each in given):
        raise UsageError(
            f"{path} is a night file, which takes no flags that change a suite; edit its stages"
        )
    return True


def checked_reasoning(setting: str | None) -> str:
    """The value of --reasoning, or its default. Raises UsageError."""
    from tutti.tasks.agents import AUTO, check_reasoning

    try:
        return AUTO if setting is None else check_reasoning(setting)
    except ValueError as error:
        raise UsageError(f"--reasoning: {error}") from None


def names_in(text: str) -> tuple[str, ...] | None:
    """The names in a list with commas; None for no text."""
    return tuple(each.strip() for each in text.split(",") if each.strip()) or None


def levels_in(text: str) -> tuple[int, ...] | None:
    """The numbers in a list with commas; None for no text. Raises UsageError."""
    try:
        return tuple(map(int, names_in(text) or ())) or None
    except ValueError:
        raise UsageError(f"--concurrency: {text!r} is no list of numbers, as 4,16") from None


def within_budget(suite: "Suite", minutes: float | None, usd: float | None) -> "Suite":
    """The suite with the given parts of its budget replaced."""
    from tutti.tasks.sweeps.spec import with_fields

    budget = {n: v for n, v in (("minutes", minutes), ("usd", usd)) if v is not None}
    return with_fields(suite, {"budget": suite.budget.model_dump() | budget} if budget else {})


@contextlib.contextmanager
def about(path: Path) -> Iterator[None]:
    """Add the suite's path to an error that only its data or models reveal."""
    from pydantic import ValidationError

    from tutti.tasks.benchmarks import BenchmarkError
    from tutti.tasks.sweeps.spec import SuiteError

    try:
        yield
    except (BenchmarkError, SuiteError, ValidationError) as error:
        if str(path) not in str(error):
            error.add_note(f"(in {path}, or by a flag)")
        raise


def _named(text: str) -> tuple[str, str]:
    name, equals, model = text.partition("=")
    if not (name and equals and model):
        raise UsageError(f"--expert must be NAME=MODEL, not {text!r}")
    return name, model


def path_of(name: str) -> Path:
    """The suite file: a path as given, or a name in deployments/suites."""
    path = Path(name)
    return path if path.suffix in (".yaml", ".yml") else SUITES / f"{name}.yaml"
