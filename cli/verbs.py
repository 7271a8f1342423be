"""Makes a verb of a function: its flags, its errors and its exit code.

In: a function whose parameters are flags, or dataclasses with a flag a field. Out: what typer takes
for a command.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from tutti.cli.failures import RESULTS, guarded
from tutti.errors import ExitCode
from tutti.tasks.project import default_registry
from tutti.tasks.serving.gateway import OptionInfo, flag_of

ExitZero = Annotated[
    bool,
    typer.Option("--exit-zero", help="exit with 0 whatever the result is; errors keep their codes"),
]
"""For scripts that only read what is printed."""


def verb(command: Callable[..., ExitCode | None]) -> Callable[..., None]:
    """The verb of `command`: an expected error becomes a message and its exit code.

    A parameter whose type is a dataclass stands for a flag of each of its fields.
    """
    taken = inspect.signature(command).parameters
    kinds = {name: each.annotation for name, each in taken.items()}
    groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        exit_zero = given.pop("exit_zero", False)
        for name, group in groups.items():
            given[name] = _filled(group, given)
        code = guarded(lambda: command(**given)) or ExitCode.DONE
        raise typer.Exit(ExitCode.DONE if exit_zero and code in RESULTS else code)

    flags: list[inspect.Parameter] = []
    for name, each in taken.items():
        flags += _flags_of(groups[name]) if name in groups else [_keyword(each)]
    run.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    return run


def verdict(command: Callable[..., ExitCode]) -> Callable[..., None]:
    """The verb of a command whose exit code is a result: `--exit-zero` makes 0 of it."""
    run = verb(command)
    *flags, last = inspect.signature(run).parameters.values()
    added = last.replace(name="exit_zero", default=False, annotation=ExitZero)
    run.__signature__ = inspect.Signature([*flags, added, last])  # type: ignore[attr-defined]
    return run


def values_of(*groups: Any) -> dict[str, Any]:
    """The flags of several dataclasses by name."""
    return {each.name: getattr(one, each.name) for one in groups for each in fields(one)}


def given(*groups: Any) -> dict[str, Any]:
    """Those of `values_of` that were given: neither None nor empty."""
    return {name: value for name, value in values_of(*groups).items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | Sequence) and not value)


def group(verbs: Mapping[str, Callable[..., None]], help: str) -> typer.Typer:
    """The verbs of a group, such as ``tutti sweep``."""
    app = typer.Typer(no_args_is_help=True, help=help)
    for name, command in verbs.items():
        app.command(name)(command)
    return app


def _keyword(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _flags_of(group: Any) -> list[inspect.Parameter]:
    """A parameter for each field of a dataclass; one with an `OptionInfo` is described by it."""
    hints = get_type_hints(group, include_extras=True)
    kind, none = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    flags = []
    for each in _flagged(group):
        default = none if each.default is MISSING else None if each.default == () else each.default
        info = each.metadata.get("option")
        annotation = hints[each.name] if info is None else _described(each, info)
        flags.append(inspect.Parameter(each.name, kind, default=default, annotation=annotation))
    return flags


def _flagged(group: Any) -> "list[Field[Any]]":
    """The fields of a dataclass that are flags."""
    return [each for each in fields(group) if not each.metadata.get("internal")]


def _described(field: "Field[Any]", info: OptionInfo) -> Any:
    """The annotation of a flag that has an `OptionInfo`."""
    option = typer.Option(
        flag_of(field.name), help=info.help, metavar=info.metavar, min=info.least, max=info.most
    )
    kind: Any = list[str] if field.default == () else info.kind
    return Annotated[kind | None if field.default in ((), None) else kind, option]


def _filled(group: Any, given: dict[str, Any]) -> Any:
    """The dataclass from the values of its flags, which are taken out of `given`."""
    values = {each.name: given.pop(each.name) for each in _flagged(group)}
    repeated = {each.name for each in _flagged(group) if each.default == ()}
    return group(**values | {name: tuple(values[name] or ()) for name in repeated})


ModelsFile = Annotated[
    Path,
    typer.Option(
        "--models",
        help="the model registry file",
        default_factory=default_registry,
        show_default="models.yaml in this folder, or else tutti's own",
    ),
]
"""Without a default in the signature: it depends on the folder."""

AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]
AsFlowRun = Annotated[
    bool, typer.Option("--prefect/--no-prefect", help="run as a Prefect flow run")
]
