"""Fakes of the parts of tau2's package that a written domain imports, for machines without tau2.

They have the real names and interfaces in a few lines; `test_tau2_check` runs the real ones.
"""

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from pydantic import BaseModel, ConfigDict


class DB(BaseModel):
    """Database that allows only its own tables."""

    model_config = ConfigDict(extra="forbid")


class ToolType(StrEnum):
    """Type of a tool's effect."""

    READ = "read"
    WRITE = "write"
    GENERIC = "generic"


def is_tool(kind: ToolType) -> Callable[[Any], Any]:
    """Mark a method as a tool."""

    def mark(method: Any) -> Any:
        method.tool_type = kind
        return method

    return mark


class ToolKitBase:
    """Tools on a database."""

    def __init__(self, db: Any = None) -> None:
        self.db = db

    def get_db_hash(self) -> str:
        """Return the hash as tau2 does."""
        state = json.dumps(self.db.model_dump(), sort_keys=True, default=str)
        return hashlib.sha256(state.encode()).hexdigest()

    def use_tool(self, tool_name: str, **arguments: Any) -> Any:
        """Call a tool."""
        return getattr(self, tool_name)(**arguments)


class Registry:
    """Registry of domains and tasks."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def register_domain(self, get_environment: Any, name: str) -> None:
        self.found[name] = SimpleNamespace(environment=get_environment)

    def register_tasks(self, get_tasks: Any, name: str, get_task_splits: Any) -> None:
        self.found[name].tasks, self.found[name].splits = get_tasks, get_task_splits


class Task(BaseModel):
    """Task with any additional fields."""

    model_config = ConfigDict(extra="allow")
    id: str


def environment(domain: str, policy: str, tools: Any, solo_mode: bool = False) -> Any:
    return SimpleNamespace(domain=domain, policy=policy, tools=tools, solo_mode=solo_mode)


@contextmanager
def loaded(folder: Path, name: str) -> Iterator[Any]:
    """Import a written folder and yield the registered domain (`environment`, `tasks`,
    `splits`)."""
    registry = Registry()
    contents: dict[str, dict[str, Any]] = {
        "tau2": {},
        "tau2.domains": {"__path__": [str(folder / "src/tau2/domains")]},
        "tau2.environment": {},
        "tau2.environment.db": {"DB": DB},
        "tau2.environment.toolkit": {
            "ToolKitBase": ToolKitBase,
            "ToolType": ToolType,
            "is_tool": is_tool,
        },
        "tau2.environment.environment": {"Environment": environment},
        "tau2.data_model": {},
        "tau2.data_model.tasks": {"Task": Task},
        "tau2.utils": {},
        "tau2.utils.utils": {"DATA_DIR": Path("/nowhere")},
        "tau2.registry": {"Registry": Registry, "registry": registry},
    }
    assert "tau2" not in sys.modules
    for module, names in contents.items():
        made = ModuleType(module)
        vars(made).update({"__path__": []} | names)
        sys.modules[module] = made
    try:
        importlib.invalidate_caches()
        importlib.import_module(f"tau2.domains.{name}.register").register()
        yield registry.found[name]
    finally:
        for module in [each for each in sys.modules if each.split(".")[0] == "tau2"]:
            del sys.modules[module]
