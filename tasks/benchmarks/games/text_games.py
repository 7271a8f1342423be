"""Text games by TextWorld's engine: ``textworld`` (games of ``tw-make``) and ``alfworld``.

The reward of a TextWorld game is 1 if it is won, else its points as a share of the maximum;
ALFWorld's is 1 if the task is done, else 0.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.agents.models import ChatModel
from tutti.tasks.benchmarks.benchmark import text_tool
from tutti.tasks.benchmarks.games.game import GameWorld, Turn, package
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.world import CallRefused, World
from tutti.tasks.task_sets import Task

COMMAND = text_tool(
    "act",
    "Give one command to the game; what happens comes back.",
    {"command": "as: open the wooden door"},
)
TEXTWORLD = "pip install textworld"
ALFWORLD = "pip install alfworld"
_WRAPPERS = "alfworld.agents.environment.alfred_tw_env"
_ARRIVAL = "You arrive at loc "  # ALFWorld names every place with a number first


class TextGame:
    """One game file, played by TextWorld."""

    schemas = (COMMAND,)

    def __init__(self, file: Path) -> None:
        self._file, self._household = file, _is_household(file)
        self._environment: Any = None

    def start(self) -> str:
        """Load the game; return its first text, and its objective if separate."""
        textworld = package("textworld", TEXTWORLD)
        told = textworld.EnvInfos(
            won=True, lost=True, score=True, max_score=True, feedback=True, objective=True
        )
        wrappers = []
        if self._household:
            module = package(_WRAPPERS, ALFWORLD)
            wrappers = [module.AlfredDemangler(), module.AlfredInfos()]
        self._environment = textworld.start(str(self._file), told, wrappers)
        state = self._environment.reset()
        objective = str(state.get("objective") or "").strip()
        text = str(state["feedback"]).strip()
        return text if objective in text else f"{objective}\n\n{text}"

    def act(self, name: str, arguments: Mapping[str, Any]) -> Turn:
        command = arguments.get("command")
        if not isinstance(command, str) or not command.strip() or "\n" in command.strip():
            raise CallRefused("`command` must be one line of text", "malformed_call")
        state, _, done = self._environment.step(command.strip())
        text = str(state["feedback"]).strip()
        if text.startswith(_ARRIVAL):
            text = text.partition(". ")[2]
        detail = {"won": bool(state["won"]), "lost": bool(state.get("lost"))}
        return Turn(text, self._reward(state), bool(done), detail)

    def close(self) -> None:
        if self._environment is not None:
            self._environment.close()

    def _reward(self, state: Mapping[str, Any]) -> float:
        if state["won"] or self._household:
            return float(bool(state["won"]))
        most = state.get("max_score") or 0
        return min(1.0, max(0.0, (state.get("score") or 0) / most)) if most else 0.0


def read(files: Files) -> Iterator[Task]:
    """One task per game file. Raises SourceMissing if the package is not installed."""
    package("textworld", TEXTWORLD)
    if any(map(_is_household, files.paths)):
        package(_WRAPPERS, ALFWORLD)
    for path in files.paths:
        name = path.relative_to(files.root).with_suffix("").as_posix()
        yield Task(
            key=name,
            inputs={},
            target={"game": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
            attributes={"kind": _kind(path) if _is_household(path) else path.stem},
            tools=(COMMAND,),
        )


def _is_household(path: Path) -> bool:
    """Whether a game is ALFWorld's, which needs that package's wrappers."""
    return path.suffix == ".tw-pddl"


def _kind(path: Path) -> str:
    return path.parent.parent.name.partition("-")[0]


def world(task: Task, user: ChatModel | None) -> World:
    """One attempt at the task's game."""
    return GameWorld(TextGame(Path(task.target["game"])))
