"""A domain's tables and tools as Python source of tau2's form.

In: a domain. Out: the text of `data_model.py`, `tools.py`, `environment.py`, `register.py`. Texts
of a domain enter the source only as literals (`repr`), and names only after `check_names`, so only
the toolkit of a domain is code.
"""

import keyword
import math
from collections.abc import Collection
from pathlib import Path
from string import Template

from pydantic import BaseModel

from tutti.errors import UsageError
from tutti.tasks.synthesis.domains.domain import Domain, FieldSpec, Parameter, TableSpec, ToolSpec

FOLDER = Path(__file__).with_name("tau2_templates")
OWN_DOMAINS = frozenset({"airline", "banking_knowledge", "mock", "retail", "telecom"})
"""Packages and data folders of tau2's own."""
OF_MODELS = frozenset(dir(BaseModel))
OF_DATABASE = OF_MODELS | {"load", "dump", "get_json_schema", "get_hash", "get_statistics"}
OF_TOOLKIT = frozenset(
    "bool int str db get_db_hash get_discoverable_tools get_statistics get_tools"
    " has_discoverable_tool has_tool is_discoverable is_tool tool_mutates_state tool_type tools"
    " update_db use_tool".split()
)
"""The base class's names, and names in the class's own signatures."""
OF_CALLS = OF_MODELS | {"requestor", "self", "tool_name"}
"""Names of tau2's own arguments of calls, and of its model of the parameters."""
TYPES = {
    "text": ("StrictStr", "str"),
    "date": ("StrictStr", "str"),
    "integer": ("StrictInt", "int"),
    "number": ("Union[StrictInt, StrictFloat]", "Union[int, float]"),
    "boolean": ("StrictBool", "bool"),
    "texts": ("List[StrictStr]", "List[str]"),
}
"""By kind, the type of a field and that of an argument."""


def tau2_source(domain: Domain, name: str) -> dict[str, str]:
    """Return the package's files by name, without the toolkit. Raises UsageError for names that it
    cannot have."""
    check_names(domain, name)
    return {
        "data_model.py": _filled(
            "data_model",
            tables="".join(_table(each) for each in domain.tables),
            fields="\n".join(
                f"    {each.name}: {_described(f'Dict[StrictStr, {_class(each)}]', each.about)}"
                for each in domain.tables
            ),
        ),
        "tools.py": _filled("tools", tools="".join(_tool(each) for each in domain.tools)),
        "environment.py": _filled("environment", name=repr(name)),
        "register.py": _filled("register", package=name),
    }


def check_names(domain: Domain, name: str) -> None:
    """Raise UsageError for a name of Python's or tau2's own, or a duplicate."""
    groups: list[tuple[str, list[str], Collection[str]]] = [
        ("the package", [name], OWN_DOMAINS),
        ("tables", [each.name for each in domain.tables], OF_DATABASE),
        ("tables (as classes)", [_class(each) for each in domain.tables], ()),
        ("tools", [each.name for each in domain.tools], OF_TOOLKIT),
    ]
    groups += [(f"tables.{t.name}", [f.name for f in t.fields], OF_MODELS) for t in domain.tables]
    groups += [(f"tools.{t.name}", [p.name for p in t.parameters], OF_CALLS) for t in domain.tools]
    for place, names, taken in groups:
        for at, each in enumerate(names):
            faults = {
                "no name that Python allows": not each.isidentifier() or keyword.iskeyword(each),
                "a name of tau2's own": each in taken,
                "there twice": each in names[:at],
            }
            why = next((fault for fault, is_there in faults.items() if is_there), None)
            if why is not None:
                what = f"{domain.name}: {place}: {each!r} is {why}"
                raise UsageError(f"{what}; rename it to write a tau2 domain")


def _filled(template: str, **parts: str) -> str:
    return Template((FOLDER / f"{template}.txt").read_text(encoding="utf-8")).substitute(parts)


def _class(table: TableSpec) -> str:
    return "".join(part.capitalize() for part in table.name.split("_")) + "Record"


def _table(table: TableSpec) -> str:
    lines = [f"class {_class(table)}(Record):", f"    {_docstring([table.about or table.name], 4)}"]
    lines += ["", *(f"    {each.name}: {_field(each)}" for each in table.fields)]
    return "\n\n" + "\n".join(lines) + "\n"


def _field(field: FieldSpec) -> str:
    kind, _ = TYPES[field.kind]
    if field.one_of and "StrictStr" in kind:
        kind = kind.replace("StrictStr", f"Literal[{', '.join(map(repr, field.one_of))}]")
    if field.kind in ("integer", "number"):
        bounds = {"ge": field.least, "le": field.most}
        finite = {n: v for n, v in bounds.items() if v is not None and math.isfinite(v)}
        given = [f"{name}={value!r}" for name, value in finite.items()]
        kind = f"Annotated[{kind}, Field({', '.join(given)})]" if given else kind
    about = f"{field.about} (of {field.refers_to})" if field.refers_to else field.about
    return _described(f"Optional[{kind}]" if field.optional else kind, about.strip())


def _described(kind: str, about: str) -> str:
    return f"Annotated[{kind}, Field(description={about!r})]"


def _tool(tool: ToolSpec) -> str:
    required = [each for each in tool.parameters if not each.optional]
    optional = [each for each in tool.parameters if each.optional]
    arguments = "".join(f", {each.name}: {TYPES[each.kind][1]}" for each in required)
    arguments += "".join(
        f", {each.name}: Optional[{TYPES[each.kind][1]}] = None" for each in optional
    )
    described = [f"    {each.name}: {_one_line(each.about)}" for each in tool.parameters]
    doc = [_one_line(tool.about), *(["", "Args:", *described] if described else [])]
    lines = [
        f"@is_tool(ToolType.{tool.kind})",
        f"def {tool.name}(self{', *' if arguments else ''}{arguments}) -> Any:",
        f"    {_docstring(doc, 8)}",
        f"    return self._run({tool.name!r}, {_passed(required)}, {_passed(optional)})",
    ]
    return "\n" + "".join(f"    {line}\n" for line in lines)


def _passed(parameters: list[Parameter]) -> str:
    return "{" + ", ".join(f"{each.name!r}: {each.name}" for each in parameters) + "}"


def _docstring(lines: list[str], indent: int) -> str:
    """Adjacent literals, which Python reads as one docstring, whatever their text."""
    literals = [repr(line + "\n") for line in lines[:-1]] + [repr(lines[-1])]
    if len(literals) == 1:
        return literals[0]
    inside = "".join(f"{' ' * (indent + 4)}{each}\n" for each in literals)
    return f"(\n{inside}{' ' * indent})"


def _one_line(text: str) -> str:
    """Remove line breaks, which a docstring's parser would interpret."""
    return " ".join(text.split())
