"""Import cycles among our own modules, for ``python -m tests.house``.

In: the sources. Out: each group of modules that import each other, directly or through others.
Imports inside functions and under ``if TYPE_CHECKING`` count. The import block of a face does not,
because it lists the package's names and loads nothing. An import of a name from a face depends on
the module that the face lists for it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

Graph = dict[str, set[str]]


def circles(root: Path, packages: tuple[str, ...]) -> list[list[str]]:
    """Return the modules of each cycle, sorted."""
    trees = {
        module_of(path, root): ast.parse(path.read_text("utf-8"))
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    packaged = {module_of(p, root) for k in packages for p in (root / k).rglob("__init__.py")}
    faces = {name: dict(face_of(trees[name])) for name in packaged}
    graph = {
        name: {home for home in _imports(tree, name in packaged, faces, trees) if home != name}
        for name, tree in trees.items()
    }
    return sorted(group for group in _components(graph) if len(group) > 1)


def module_of(path: Path, root: Path) -> str:
    """Return the dotted name under which `path` is imported."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(("tutti", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def face_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name of a face with its module."""
    for block in tree.body:
        for node in block.body if _is_face_block(block) else [block]:  # type: ignore[attr-defined]
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from ((alias.asname or alias.name, node.module) for alias in node.names)


def _is_face_block(node: ast.AST) -> bool:
    named = isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    return named and node.test.id == "TYPE_CHECKING"  # type: ignore[attr-defined]


def _imports(
    tree: ast.Module,
    is_package: bool,
    faces: dict[str, dict[str, str]],
    known: dict[str, ast.Module],
) -> Iterator[str]:
    """Yield our modules that a module imports anywhere."""
    skipped = {
        id(inner)
        for block in (tree.body if is_package else [])
        if _is_face_block(block)
        for inner in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                yield from _homes(node.module, alias.name, faces, known)


def _homes(
    module: str, name: str, faces: dict[str, dict[str, str]], known: dict[str, ast.Module]
) -> Iterator[str]:
    """Yield the modules that ``from module import name`` needs."""
    if f"{module}.{name}" in known:
        yield f"{module}.{name}"
    elif (home := faces.get(module, {}).get(name)) in known and home != module:
        assert home is not None, "only names of modules are known"
        yield from _homes(home, name, faces, known)
    else:
        yield module


def _components(graph: Graph) -> Iterator[list[str]]:
    """Yield the strongly connected components, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            place = stack.index(name)
            found.append(sorted(stack[place:]))
            del stack[place:]

    for name in graph:
        if name not in index:
            visit(name)
    yield from found
