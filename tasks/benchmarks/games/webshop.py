"""WebShop: find and buy the product in an instruction, in a simulated shop.

In: a JSON list of goals' numbers. The shop is the package ``web_agent_site``, which the user
installs with its data. The reward is the shop's own, 0 to 1; only a reward of 1 is a success.
"""

import functools
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from tutti.tasks.agents.models import ChatModel
from tutti.tasks.benchmarks.benchmark import text_tool
from tutti.tasks.benchmarks.errors import BadRow
from tutti.tasks.benchmarks.games.game import GameWorld, Turn, package
from tutti.tasks.benchmarks.rows import read_json
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.world import CallRefused, World
from tutti.tasks.task_sets import Task

PACKAGE = "web_agent_site.envs"
INSTALL = "install WebShop from its repository, with its products and search index"


SEARCH = text_tool(
    "search", "Search the shop, from its first page.", {"keywords": "what to look for"}
)
CLICK = text_tool("click", "Click what the page shows.", {"value": "a button, option or product"})
ARGUMENT = {"search": "keywords", "click": "value"}


class Shop:
    """One visit to the shop."""

    schemas = (SEARCH, CLICK)

    def __init__(self, goal: int) -> None:
        self._goal = goal
        self._environment: Any = None

    def start(self) -> str:
        """Open the shop; return its first page, which has the instruction."""
        environment = package(PACKAGE, INSTALL).WebAgentTextEnv
        # A separate prefix per visit: the shop keeps a visit's page and cart by prefix and goal.
        own = uuid.uuid4().hex
        self._environment = environment(
            observation_mode="text", server=_server(), session_prefix=own
        )
        page, _ = self._environment.reset(session=self._goal)
        return str(page)

    def act(self, name: str, arguments: Mapping[str, Any]) -> Turn:
        value = arguments.get(ARGUMENT[name])
        if not isinstance(value, str) or not value.strip():
            raise CallRefused(f"`{ARGUMENT[name]}` must be text", "malformed_call")
        there = self._environment.get_available_actions()
        if name == "search" and not there["has_search_bar"]:
            raise CallRefused("this page has no search; go back to the first one")
        offered = [one.lower() for one in there["clickables"]]
        if name == "click" and value.strip().lower() not in offered:
            raise CallRefused(f"nothing here is called {value!r}; there are: {', '.join(offered)}")
        page, reward, done, _ = self._environment.step(f"{name}[{value.strip()}]")
        return Turn(str(page), float(reward), bool(done))

    def close(self) -> None:
        if self._environment is not None:
            self._environment.close()


@functools.cache
def _server() -> Any:
    """The shop shared by all visits, because loading its products takes minutes and gigabytes."""
    environment = package(PACKAGE, INSTALL).WebAgentTextEnv
    return environment(observation_mode="text", human_goals=True).server


def read(files: Files) -> Iterator[Task]:
    """One task per goal number. Raises BadRow, SourceMissing if the shop is not installed."""
    package(PACKAGE, INSTALL)
    for path in files.paths:
        goals = read_json(path)
        if not isinstance(goals, list) or not all(type(goal) is int for goal in goals):
            raise BadRow(path, None, "", "not a list of whole numbers")
        for goal in goals:
            yield Task(str(goal), {}, {"goal": goal}, tools=(SEARCH, CLICK))


def world(task: Task, user: ChatModel | None) -> World:
    """One attempt at the task's goal."""
    return GameWorld(Shop(task.target["goal"]))
