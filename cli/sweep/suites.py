"""Shared code of the `sweep` verbs: suite file lookup, and flags that change its fields."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.base.failures import UsageError
from tutti.cli.base.verbs import Flags
from tutti.tasks import nights
from tutti.tasks.agents import models
from tutti.tasks.platform import SUITES
from tutti.tasks.sweeps import spec

SuiteName = Annotated[str, typer.Argument(help="a suite file, or its name in deployments/suites")]
Concurrency = Annotated[
    str, typer.Option(help="sessions at once, one cell for each, separated by commas: 4,16")
]
Policies = Annotated[str, typer.Option(help="scheduling policies to compare: passthrough,adaptive")]
Reasoning = Annotated[
    str | None,
    typer.Option(help="auto, off, or the tag that ends it, as </think>: what follows is the reply"),
]


SETTINGS = "tasks/sweeps/from_flags/keep.py:RunSettings"
Budget = Annotated[dict[str, Any], Flags(SETTINGS, "budget_minutes budget_usd")]
Limits = Annotated[dict[str, Any], Flags(SETTINGS, "budget_minutes budget_usd unsafe_sandbox")]


@dataclass(frozen=True, kw_only=True)
class SuiteFlags:
    """The flags that change a suite."""

    model: Annotated[str | None, typer.Option(help="a model in the registry")] = None
    concurrency: Concurrency = ""
    policies: Policies = ""
    ids: Annotated[str, typer.Option(help="only these tasks, separated by commas")] = ""
    settings: Annotated[
        dict[str, Any],
        Flags(SETTINGS, "source limit temperature max_tokens reasoning where judge user agent"),
    ] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """Return the field of each flag; None if it is not given. Raises UsageError."""
        lists = {"ids": names_in(self.ids), "policies": names_in(self.policies)}
        levels = {"concurrency": levels_in(self.concurrency)}
        return {"model": self.model} | lists | levels | self.settings


Experts = Annotated[
    list[str] | None,
    typer.Option(
        "--expert", help="NAME=MODEL: replace a model that the agent file names; repeatable"
    ),
]


def suite_of(
    name: str, flags: SuiteFlags, experts: list[str] | None, limits: Mapping[str, Any] | None = None
) -> "spec.Suite":
    """Read the suite `name` and set the fields whose flags are given. Raises SuiteError,
    UsageError."""
    fields = flags.fields()
    fields["experts"] = None if experts is None else dict(map(_named, experts))
    if flags.model is not None:
        fields["models"] = ()  # the flag's model in place of all of them
    suite = spec.read_suite(path_of(name))
    if limits is not None:
        fields["unsafe_sandbox"] = limits.get("unsafe_sandbox")
        given = {
            name: limits[f"budget_{name}"]
            for name in ("minutes", "usd")
            if f"budget_{name}" in limits
        }
        fields["budget"] = suite.budget.model_dump() | given if given else None
    return suite.with_fields(fields)


def is_night_file(path: Path, given: Sequence[Any]) -> bool:
    """Whether a path is a night file. `given` are flags that change a suite, which a night file
    refuses because its stages set their own. Raises UsageError for such a flag."""
    if not (path.is_file() and nights.is_night(path)):
        return False
    if any(each not in (None, "", [], ()) and each is not False for each in given):
        raise UsageError(
            f"{path} is a night file, which takes no flags that change a suite; edit its stages"
        )
    return True


def checked_reasoning(setting: str | None) -> str:
    """Return the value of --reasoning, or its default. Raises UsageError."""
    try:
        return models.AUTO if setting is None else models.check_reasoning(setting)
    except ValueError as error:
        raise UsageError(f"--reasoning: {error}") from None


def names_in(text: str) -> tuple[str, ...] | None:
    """Return the names in a comma-separated list; None for no text."""
    return tuple(each.strip() for each in text.split(",") if each.strip()) or None


def levels_in(text: str) -> tuple[int, ...] | None:
    """Return the numbers in a comma-separated list; None for no text. Raises UsageError."""
    try:
        return tuple(map(int, names_in(text) or ())) or None
    except ValueError:
        raise UsageError(f"--concurrency: {text!r} is no list of numbers, as 4,16") from None


@contextlib.contextmanager
def about(path: Path) -> Iterator[None]:
    """Add the suite's path to an error that only its data or models reveal."""
    from pydantic import ValidationError

    from tutti.tasks.benchmarks import BenchmarkError

    try:
        yield
    except (BenchmarkError, spec.SuiteError, ValidationError) as error:
        if str(path) not in str(error):
            error.add_note(f"(in {path}, or by a flag)")
        raise


def _named(text: str) -> tuple[str, str]:
    name, equals, model = text.partition("=")
    if not (name and equals and model):
        raise UsageError(f"--expert must be NAME=MODEL, not {text!r}")
    return name, model


def path_of(name: str) -> Path:
    """Return the suite file: a path as given, or a name in deployments/suites."""
    path = Path(name)
    return path if path.suffix in (".yaml", ".yml") else SUITES / f"{name}.yaml"
