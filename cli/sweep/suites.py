"""What the verbs of sweeps share: which suite is meant, and the fields that flags change."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import UsageError
from tutti.tasks.project import SUITES

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec import Suite

SuiteName = Annotated[str, typer.Argument(help="a suite file, or its name in deployments/suites")]
Source = Annotated[Path | None, typer.Option(help="the benchmark's data: a file or folder")]
Limit = Annotated[int | None, typer.Option(min=1, help="the first so many items")]
Ids = Annotated[str, typer.Option(help="these items, with commas")]
Where = Annotated[
    str | None, typer.Option(help="SQL over the items' attributes: subject = 'physics'")
]
Judge = Annotated[str | None, typer.Option(help="a model that scores answers")]
User = Annotated[str | None, typer.Option(help="a model that plays the user")]
Agent = Annotated[str | None, typer.Option(help="an orchestrator, by name or file")]
Minutes = Annotated[
    float | None,
    typer.Option(help="stop starting samples after N minutes; run again to resume"),
]
Usd = Annotated[
    float | None,
    typer.Option(help="stop starting samples once attempts cost so much; run again to resume"),
]
UnsafeSandbox = Annotated[
    bool | None,
    typer.Option(
        "--unsafe-sandbox",
        help="run programs that models write without walls where this machine has none",
    ),
]
Experts = Annotated[
    list[str] | None,
    typer.Option("--expert", help="NAME=MODEL: another model for one of the agent's; repeatable"),
]


def suite_of(name: str, ids: str = "", experts: list[str] | None = None, **fields: Any) -> "Suite":
    """The suite `name` with the fields that are not None. Raises SuiteError, UsageError."""
    from tutti.tasks.sweeps.spec import read_suite, with_fields

    fields["experts"] = None if experts is None else dict(map(_named, experts))
    fields["ids"] = tuple(each.strip() for each in ids.split(",")) if ids else None
    return with_fields(read_suite(path_of(name)), fields)


@contextlib.contextmanager
def about(path: Path) -> Iterator[None]:
    """A fault that is seen only with data and models at hand is told with the suite's file."""
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
    """A suite's file: the one named, else of our own."""
    path = Path(name)
    return path if path.suffix in (".yaml", ".yml") else SUITES / f"{name}.yaml"
