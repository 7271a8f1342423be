"""Project-specific checks that no linter has: run ``python -m tests.house`` (part of ``make
lint``).

In: the sources of cli, flows, tasks, storage and bench. Out: one line per violation, ``file:line:
what``, and exit code 1 if there is any. `EXCEPTIONS` lists permitted violations by name and may
only shrink.
"""

import ast
import sys
from collections.abc import Iterator
from inspect import ismodule
from pathlib import Path

from tests.import_circles import circles
from tutti.tasks import sandbox

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cli", "flows", "tasks", "storage", "bench")
INSTALLED = ("cli", "flows", "tasks", "storage")
"""Packages of the wheel, in which no modules may import each other in a circle."""
MAX_FILE_LINES = 500
MAX_FLOW_LINES = 130  # a flow is a table of contents
MAX_FUNCTION_LINES = 60
MAX_NESTING = 3
MAX_ARGUMENTS = 6
MAX_FILES = 25  # side by side in one folder, tests included
BLOCKS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.Match,
)
KERNEL = ("tutti.face", "tutti.errors", "tutti.terminal")
"""Modules without a stage, which every stage may import."""
STAGED = ("tutti.tasks.sweeps",)
"""Stages whose folders are stages of their own to each other."""
STAGES = (
    "platform",
    "sandbox",
    "serving",
    "agents",
    "scoring",
    "retrieval",
    "leaks",
    "task_sets",
    "benchmarks",
    "synthesis",
    "sweeps",
    "reporting",
    "exchange",
    "nights",
    "training",
    "improvement",
)
"""The folders of tasks/ in their order: a stage imports only from those before it."""
FORBIDDEN_IMPORTS = {
    "storage": ("tasks", "flows", "cli"),
    "tasks": ("flows", "cli"),
    "flows": ("cli",),
    "cli": (),
    "bench": (),
}

SERVERS = ("http.server", "socketserver", "wsgiref", "aiohttp.web", "starlette", "uvicorn")
"""Other HTTP servers than that of `tasks/serving/wire`, whose rules every service has."""
SANDBOX = "tutti.tasks.sandbox"
SANDBOX_FACE = {name for name, value in vars(sandbox).items() if not ismodule(value)}
RUNNERS = ("Sandbox", "SandboxSession", "SandboxSessions")
LEVEL_CHOICES = ("level_for_models", "sandbox_level")
"""The calls that give a level: the sandbox's own, and a plan's, which asks it."""

EXCEPTIONS: dict[str, str] = {
    # "path: rule" to the reason why it is let through, for now.
    "tasks/serving/scheduling/scheduler.py: arguments": "`arrive` runs once a call",
}

Offence = tuple[str, int, str, str]
"""(file, line, rule, what)"""


def offences(root: Path = ROOT) -> Iterator[Offence]:
    """Yield every violation of a measure under `root`, exceptions included."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            text = path.read_text()
            for line, rule, what in _of_module(root, package, name, text):
                yield name, line, rule, what
    for top in (*PACKAGES, "tests"):
        yield from _full_folders(root, root / top)
    for first, *others in circles(root, INSTALLED):
        path = root / first.removeprefix("tutti.").replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        what = f"imports, and is imported by, {', '.join(others)}"
        yield file.relative_to(root).as_posix(), 1, "import circle", what


def _full_folders(root: Path, top: Path) -> Iterator[Offence]:
    for folder in sorted(each for each in top.glob("**") if each.is_dir()):
        files = [each for each in folder.iterdir() if each.suffix in (".py", ".html", ".yaml")]
        if len(files) > MAX_FILES:
            what = f"{len(files)} files side by side, at most {MAX_FILES}"
            yield folder.relative_to(root).as_posix(), 1, "full folder", what


def _of_module(root: Path, package: str, name: str, text: str) -> Iterator[tuple[int, str, str]]:
    lines = len(text.splitlines())
    limit = MAX_FLOW_LINES if package == "flows" else MAX_FILE_LINES
    if lines > limit:
        yield limit + 1, "file length", f"{lines} lines, at most {limit}"
    tree = ast.parse(text, name)
    if not ast.get_docstring(tree):
        yield 1, "docstring", "the module has no docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_function(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _of_import(package, node)
            yield from _past_the_face(root, name, node)
            yield from _upward(name, node)
            if package in INSTALLED:
                yield from _own_server(node)
        elif isinstance(node, ast.ExceptHandler):
            yield from _of_handler(node)
    if package in INSTALLED and not name.startswith("tasks/sandbox/"):
        yield from _own_level(tree)


def _of_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[int, str, str]]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > MAX_FUNCTION_LINES:
        what = f"{node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
        yield node.lineno, "function length", what
    if (deep := _depth(node)) > MAX_NESTING:
        yield node.lineno, "nesting", f"{node.name} nests {deep} blocks, at most {MAX_NESTING}"
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    named = [each for each in taken if each.arg not in ("self", "cls")]
    # A verb's arguments are its flags: typer reads them from annotations.
    flags = any("typer." in ast.unparse(each.annotation) for each in named if each.annotation)
    if len(named) > MAX_ARGUMENTS and not flags:
        what = f"{node.name} takes {len(named)} arguments, at most {MAX_ARGUMENTS}"
        yield node.lineno, "arguments", what


def _depth(node: ast.AST) -> int:
    """Return the nesting depth of blocks in a function's body; an `elif` adds none."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, _depth(child) + (isinstance(child, BLOCKS) and not is_elif))
    return deepest


def _of_import(package: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str, str]]:
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for name in names:
        if name.removeprefix("tutti.").split(".")[0] in FORBIDDEN_IMPORTS[package]:
            yield node.lineno, "import direction", f"{package} must not import {name}"


def stage_of(module: str) -> str:
    """Return the stage of one of our modules: ``tutti.tasks.agents``, ``tutti.storage``."""
    parts = module.split(".")
    stage = ".".join(parts[:3] if parts[1:2] == ["tasks"] else parts[:2])
    return ".".join(parts[:4]) if stage in STAGED else stage


def _past_the_face(
    root: Path, file: str, node: ast.Import | ast.ImportFrom
) -> Iterator[tuple[int, str, str]]:
    """Yield imports of another stage's internals; only a package may be imported from."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tutti."):
        return
    module = node.module or ""
    own = "tutti." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    inside = not (root / module.removeprefix("tutti.").replace(".", "/")).is_dir()
    open_to_all = (own + ".", "tutti.flows.")
    exempt = module in KERNEL or file.startswith("bench/") or module.startswith(open_to_all)
    if inside and not exempt and stage_of(module) != stage_of(own):
        yield node.lineno, "face", f"{module} is another stage's: import from its package"


def _upward(file: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str, str]]:
    """Yield imports from a stage that comes later in `STAGES` or is not in it, including those
    within functions."""
    own = _stage_in_tasks("tutti." + file.removesuffix(".py").replace("/", "."))
    for module in _modules_of(node):
        other = _stage_in_tasks(module)
        if not own or not other or own == other:
            continue
        unknown = [stage for stage in (own, other) if stage not in STAGES]
        if unknown:
            yield node.lineno, "stage order", f"add {unknown[0]} to STAGES in tests/house.py"
        elif STAGES.index(other) > STAGES.index(own):
            what = f"{own} must not import {other}, which is a later stage"
            yield node.lineno, "stage order", what


def _modules_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules that an import may load; ``from tutti.tasks import x`` may also load
    ``x``."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module == "tutti.tasks":
        return [f"tutti.tasks.{alias.name}" for alias in node.names]
    return [node.module or ""]


def _stage_in_tasks(module: str) -> str:
    """Return the stage's folder in tasks/, or an empty string for modules without a stage."""
    parts = module.split(".")
    staged = parts[:2] == ["tutti", "tasks"] and len(parts) > 2
    return parts[2] if staged and ".".join(parts[:3]) not in KERNEL else ""


def _of_handler(node: ast.ExceptHandler) -> Iterator[tuple[int, str, str]]:
    if node.type is None:
        yield node.lineno, "bare except", "name the exception"
    silent = all(isinstance(statement, ast.Pass) for statement in node.body)
    broad = isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
    if silent and broad:
        yield node.lineno, "silent except", "`except Exception: pass` hides every bug"


def _own_server(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str, str]]:
    """Yield imports of another HTTP server."""
    modules = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        modules = [f"{node.module}.{name}" for name in modules]
    for module in modules:
        if f"{module}.".startswith(tuple(f"{server}." for server in SERVERS)):
            yield node.lineno, "http server", f"{module}: services use tutti.tasks.serving.wire"


def _own_level(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield runs of a model's code at a level that `level_for_models` did not choose."""
    chosen = {ast.unparse(each) for each in ast.walk(tree) if _is_choice(each)} | _names_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == SANDBOX:
            hidden = [each.name for each in node.names if each.name not in SANDBOX_FACE]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            hidden = [each for each in _modules_of(node) if f"{each}.".startswith(f"{SANDBOX}.")]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in RUNNERS:
            hidden = [] if node.args and ast.unparse(node.args[0]) in chosen else ["a level"]
        else:
            continue
        for each in hidden:
            yield node.lineno, "sandbox level", f"{each}: only level_for_models chooses a level"


def _is_choice(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in LEVEL_CHOICES


def _names_of(tree: ast.Module) -> set[str]:
    """Return names to which only such a choice is assigned."""
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                text = ast.unparse(name)
                found[text] = found.get(text, True) and _is_choice(value)
    return {name for name, chosen in found.items() if chosen}


def main() -> int:
    """Print violations and obsolete exceptions; return 1 if there is any."""
    used, failed = set(), False
    for file, line, rule, what in offences():
        key = f"{file}: {rule}"
        if key in EXCEPTIONS:
            used.add(key)
            continue
        failed = True
        print(f"{file}:{line}: {rule}: {what}")
    for key in sorted(EXCEPTIONS.keys() - used):
        failed = True
        print(f"tests/house.py:1: exception no longer needed: {key}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
