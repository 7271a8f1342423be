"""Lazy loading of a package's public names.

In: a package whose ``__init__`` imports its public names under ``if TYPE_CHECKING``. Out: its
``__getattr__``. Type checkers and people read the list there; importing the package loads nothing,
so that ``tutti --help`` does not wait for pyarrow, nor a training job for the platform.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy(package: str, file: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of `package`, whose ``__init__`` is `file`."""
    homes: dict[str, str] = {}

    def find(name: str) -> Any:
        if not homes:
            homes.update(_listed(file))
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find


def _listed(file: str) -> dict[str, str]:
    """Return each name that ``if TYPE_CHECKING`` imports, and its module."""
    return {
        alias.name: node.module
        for block in ast.parse(Path(file).read_text("utf-8")).body
        if isinstance(block, ast.If)
        and isinstance(block.test, ast.Name)
        and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
