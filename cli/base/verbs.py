"""Conversion of a function to a verb: its flags, its errors and its exit code.

In: a function whose parameters are flags, dataclasses with one flag per field, or `Flags` of a
model's fields. Out: a command for typer.
"""

import ast
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_type_hints

import typer

from tutti.cli.base.failures import RESULTS, guarded
from tutti.errors import ExitCode
from tutti.tasks.platform import PACKAGE, default_registry
from tutti.tasks.serving.gateway import OptionInfo, flag_of

ExitZero = Annotated[
    bool,
    typer.Option("--exit-zero", help="exit with 0 whatever the result is; errors keep their codes"),
]
"""For scripts that only read what is printed."""


TYPES: Mapping[str, Any] = {"bool": bool, "int": int, "float": float, "str": str, "Path": Path}


@dataclass(frozen=True)
class Flags:
    """A flag for each of some fields of a model; the verb gets those that are given, by name.

    Stands in an annotation: ``Annotated[dict[str, Any], Flags(...)]``. Types and help are those of
    the model, whose source is read and not imported: that takes up to 0.7 s, and help none of it.
    """

    model: str
    """File below the package, and class: ``tasks/training/jobs/job.py:TrainJob``."""
    fields: str
    """Names of the fields, separated by spaces; ``field=--flag`` for one with another flag."""

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return a parameter for each field, by its name."""
        described, found = _described_fields(self.model), {}
        for each in self.fields.split():
            name, _, flag = each.partition("=")
            kind, help = described[name]
            option = typer.Option(flag or flag_of(name), help=help)
            found[name] = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[kind | None, option],
            )
        return found


@functools.cache
def _described_fields(model: str) -> dict[str, tuple[Any, str]]:
    """Return type and help of each field of a model: its `description`, else the text below it."""
    path, _, name = model.partition(":")
    tree = ast.parse((PACKAGE / path).read_text("utf-8"))
    (body,) = (x.body for x in tree.body if isinstance(x, ast.ClassDef) and x.name == name)
    found = {}
    for field, below in zip(body, [*body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        given = getattr(field.value, "keywords", ())
        words = [each.value for each in given if each.arg == "description"]
        words += [below.value] if isinstance(below, ast.Expr) else []
        text = str(ast.literal_eval(words[0])).rstrip(".").replace("``", "") if words else ""
        first = text[:1] if text[1:2].isupper() else text[:1].lower()  # SQL stays
        kind = ast.unparse(field.annotation)
        named = next((TYPES[each] for each in re.findall(r"\w+", kind) if each in TYPES), str)
        repeated = kind.startswith(("tuple", "Sequence", "list"))
        found[field.target.id] = (
            GenericAlias(list, (named,)) if repeated else named,
            first + text[1:],
        )
    return found


def verb(command: Callable[..., ExitCode | None]) -> Callable[..., None]:
    """Return the verb of `command`: an expected error becomes a message and its exit code.

    A parameter whose type is a dataclass becomes a flag for each of its fields, and one with
    `Flags` flags for those of a model.
    """
    taken = inspect.signature(command).parameters
    groups = {name: each.annotation for name, each in taken.items() if _is_group(each.annotation)}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        exit_zero = given.pop("exit_zero", False)
        for name, group in groups.items():
            given[name] = _filled(group, given)
        code = guarded(lambda: command(**given)) or ExitCode.DONE
        raise typer.Exit(ExitCode.DONE if exit_zero and code in RESULTS else code)

    flags: list[inspect.Parameter] = []
    for name, each in taken.items():
        own = each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        flags += _flags_of(groups[name]) if name in groups else [own]
    run.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    return run


def verdict(command: Callable[..., ExitCode]) -> Callable[..., None]:
    """The verb of a command whose exit code is a result, which `--exit-zero` replaces by 0."""
    run = verb(command)
    *flags, last = inspect.signature(run).parameters.values()
    added = last.replace(name="exit_zero", default=False, annotation=ExitZero)
    run.__signature__ = inspect.Signature([*flags, added, last])  # type: ignore[attr-defined]
    return run


def values_of(*groups: Any) -> dict[str, Any]:
    """Return the flags of several dataclasses by name."""
    return {each.name: getattr(one, each.name) for one in groups for each in fields(one)}


def given(*groups: Any) -> dict[str, Any]:
    """Return the given ones of `values_of`: neither None nor empty."""
    return {name: value for name, value in values_of(*groups).items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | Sequence) and not value)


def group(verbs: Mapping[str, Callable[..., None]], help: str) -> typer.Typer:
    """Return the verbs of a group, such as ``tutti sweep``."""
    app = typer.Typer(no_args_is_help=True, help=help)
    for name, command in verbs.items():
        app.command(name)(command)
    return app


def _of_model(annotation: Any) -> Flags | None:
    return next((x for x in getattr(annotation, "__metadata__", ()) if isinstance(x, Flags)), None)


def _is_group(annotation: Any) -> bool:
    return is_dataclass(annotation) or _of_model(annotation) is not None


def _flags_of(group: Any) -> list[inspect.Parameter]:
    """Return a parameter for each field of a dataclass or `Flags`; one with an `OptionInfo` is
    described by it."""
    if (model := _of_model(group)) is not None:
        return list(model.parameters.values())
    hints = get_type_hints(group, include_extras=True)
    kind, none = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    flags = []
    for each in _flagged(group):
        if _is_group(hints[each.name]):
            flags += _flags_of(hints[each.name])
            continue
        default = none if each.default is MISSING else None if each.default == () else each.default
        info = each.metadata.get("option")
        annotation = hints[each.name] if info is None else _described(each, info)
        flags.append(inspect.Parameter(each.name, kind, default=default, annotation=annotation))
    return flags


def _flagged(group: Any) -> "list[Field[Any]]":
    return [each for each in fields(group) if not each.metadata.get("internal")]


def _described(field: "Field[Any]", info: OptionInfo) -> Any:
    option = typer.Option(
        flag_of(field.name), help=info.help, metavar=info.metavar, min=info.least, max=info.most
    )
    kind: Any = list[str] if field.default == () else info.kind
    return Annotated[kind | None if field.default in ((), None) else kind, option]


def _filled(group: Any, given: dict[str, Any]) -> Any:
    """Return the values of a group's flags, which are removed from `given`."""
    if (model := _of_model(group)) is not None:
        own = {name: given.pop(name) for name in model.parameters}
        return {name: value for name, value in own.items() if value is not None}
    hints = get_type_hints(group, include_extras=True)
    values = {
        name: _filled(hints[name], given) if _is_group(hints[name]) else given.pop(name)
        for name in (each.name for each in _flagged(group))
    }
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
