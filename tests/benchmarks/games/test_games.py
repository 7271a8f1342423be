"""Tests of games: TextWorld itself if it is installed, and the adapters against fakes of the
packages.

The fakes have only what the adapters use of `textworld`, `alfworld` and `web_agent_site`: they test
how an adapter handles responses, not that the packages give such responses.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tests.benchmarks.conftest import load
from tutti.tasks.agents.tools.tool import ToolUnavailable
from tutti.tasks.benchmarks import BadRow, SourceMissing, Task, World, benchmark_named
from tutti.tasks.benchmarks.games import webshop
from tutti.tasks.benchmarks.games.game import REMINDER, package
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission


def world_of(name: str, item: Task) -> World:
    """Return a world of the benchmark's task."""
    benchmark = benchmark_named(name)
    assert benchmark.world is not None and benchmark.interactive and not benchmark.needs_user
    return benchmark.world(item, None)


async def scored(world: World) -> Score:
    """Return the score of the world's outcome."""
    return await SCORERS["reward"].score(
        {}, Submission(None, state=world.outcome()), ScoringResources()
    )


@pytest.mark.filterwarnings("ignore:Game .* is not fully supported")
async def test_a_game_that_textworld_made(tmp_path: Path) -> None:
    """A generated game played by its own solution scores 1.0 and ends, and without moves it scores
    0.0. Commands that the game does not understand cost nothing, and two attempts at the same file
    share no state."""
    textworld = pytest.importorskip("textworld", reason="the package textworld is not installed")
    options = textworld.GameOptions()
    options.nb_rooms, options.nb_objects, options.seeds = 2, 3, 1234
    options.quest_length = 2
    options.path = str(tmp_path / "one.z8")
    _, game = textworld.make(options)
    (item,) = load("textworld", tmp_path)
    assert item.key == "one" and len(item.target["sha256"]) == 64
    played, idle = world_of("textworld", item), world_of("textworld", item)
    first = await played.begin()
    assert first is not None and first == await idle.begin() and "=-" in first
    nonsense = await played.use("act", '{"command": "xyzzy the frob"}')
    assert nonsense.status == "ok" and not played.over()
    for command in game.metadata["walkthrough"]:
        result = await played.use("act", f'{{"command": "{command}"}}')
        assert result.status == "ok"
    assert played.over() and not idle.over()
    assert (await scored(played)).correct and (await scored(idle)).value == 0.0
    again = await played.use("act", '{"command": "look"}')
    assert again.status == "ok" and (await scored(played)).correct, "the end stays the end"
    await played.close()
    await idle.close()


class FakeGame:
    """Fake of the part of a TextWorld environment that the adapter uses: a door to open, then a hat
    to take."""

    def __init__(self, points: int) -> None:
        self.points, self.closed = points, False
        self.given: list[str] = []

    def _state(self, feedback: str, done: bool) -> dict[str, Any]:
        won = done and self.points == 2
        state = {"feedback": feedback, "won": won, "lost": done and not won}
        return state | {"score": self.points, "max_score": 2, "objective": "Take the hat."}

    def reset(self) -> Mapping[str, Any]:
        return self._state("A door.", False)

    def step(self, command: str) -> tuple[Mapping[str, Any], int, bool]:
        self.given.append(command)
        self.points += command in ("open door", "take hat")
        done = command in ("take hat", "die")
        text = "You arrive at loc 7. A hat." if command == "open door" else "Done."
        return self._state(text, done), self.points, done

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Install fakes of the packages `textworld` and `alfworld` and return how each game was
    started."""
    started: list[Any] = []
    textworld = ModuleType("textworld")
    wrappers = ModuleType("alfworld.agents.environment.alfred_tw_env")

    def start(path: str, infos: Mapping[str, bool], wraps: list[str]) -> FakeGame:
        game = FakeGame(0)
        started.append((path, infos, wraps, game))
        return game

    textworld.__dict__.update(start=start, EnvInfos=dict)
    wrappers.__dict__.update(AlfredDemangler=lambda: "names", AlfredInfos=lambda: "infos")
    monkeypatch.setitem(sys.modules, "textworld", textworld)
    for name in ("alfworld", "alfworld.agents", "alfworld.agents.environment"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, wrappers.__name__, wrappers)
    return started


def games(folder: Path, *names: str) -> Path:
    """Return the folder of game files that only a fake can play."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


async def test_what_a_game_tells(tmp_path: Path, fake: list[Any]) -> None:
    """The first message has the objective and the first view, points count before the end, text
    without a command has no effect and gets one reminder, and a command is one line of text."""
    (item,) = load("textworld", games(tmp_path, "one.z8"))
    world = world_of("textworld", item)
    await world.close()  # one that was never begun
    assert await world.begin() == "Take the hat.\n\nA door."
    assert fake[0][1]["won"] and fake[0][2] == []
    assert (await world.use("act", '{"command": "open door"}')).content == "A hat."
    assert (await scored(world)).value == 0.5
    assert await world.reply("hm") == REMINDER
    await world.use("act", '{"command": " look "}')
    assert [await world.reply("hm"), await world.reply("hm")] == [REMINDER, None]
    bad = await world.use("act", '{"command": "look\\nlook"}')
    assert bad.error_type == "malformed_call" and fake[0][3].given == ["open door", "look"]
    await world.use("act", '{"command": "take hat"}')
    assert world.over() and (await scored(world)).correct
    await world.close()
    assert fake[0][3].closed


async def test_a_game_that_is_lost(tmp_path: Path, fake: list[Any]) -> None:
    """Reaching the end of a game scores nothing by itself (the reference counts it as success)."""
    world = world_of("textworld", load("textworld", games(tmp_path, "one.ulx"))[0])
    await world.begin()
    await world.use("act", '{"command": "die"}')
    score = await scored(world)
    assert world.over() and score.value == 0.0 and score.detail["lost"]


async def test_a_game_that_breaks(tmp_path: Path, fake: list[Any]) -> None:
    """An error of the engine voids the attempt and is not a wrong answer."""
    world = world_of("textworld", load("textworld", games(tmp_path, "one.z8"))[0])
    with pytest.raises(ToolUnavailable, match="the game failed"):
        await world.use("act", '{"command": "look"}')  # it was never begun
    assert not world.over()


async def test_households(tmp_path: Path, fake: list[Any]) -> None:
    """ALFWorld's folders are splits, its games get that package's wrappers, only a completed task
    scores, and the number of the place on arrival is omitted."""
    task = "pick_and_place_simple-Mug-None-Desk-308/trial_T2019/game.tw-pddl"
    games(tmp_path, f"json_2.1.1/valid_unseen/{task}", f"json_2.1.1/valid_seen/{task}")
    (item,) = load("alfworld", tmp_path)
    assert item.key == f"json_2.1.1/valid_unseen/{task.removesuffix('.tw-pddl')}"
    assert item.attributes == {"kind": "pick_and_place_simple"}
    assert len(load("alfworld", tmp_path, split="valid_seen")) == 1
    world = world_of("alfworld", item)
    await world.begin()
    assert fake[0][2] == ["names", "infos"]
    assert (await world.use("act", '{"command": "open door"}')).content == "A hat."
    assert (await scored(world)).value == 0.0, "half the points are no household task done"
    await world.use("act", '{"command": "take hat"}')
    assert (await scored(world)).value == 1.0


def test_the_place_of_a_game_is_not_what_it_is(tmp_path: Path, fake: list[Any]) -> None:
    """The same game in another folder is the same task; another game with that name is not."""
    here, there = tmp_path / "here", tmp_path / "there"
    (one,), (two,) = (load("textworld", games(path, "one.z8")) for path in (here, there))
    assert one.task_id == two.task_id
    (there / "one.z8").write_text("other")
    assert load("textworld", there)[0].task_id != one.task_id


@pytest.mark.parametrize("name", ["textworld", "alfworld", "webshop"])
def test_a_package_that_is_missing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading raises an error that names the package to install, before anything runs."""
    games(tmp_path, "one.z8", "valid_unseen/a/b/game.tw-pddl", "test_indices.json")
    for missing in ("textworld", "web_agent_site", "web_agent_site.envs"):
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SourceMissing, match=r"not usable here .*: (pip )?install"):
        load(name, tmp_path)
    with pytest.raises(SourceMissing, match="get it there"):
        package("no_such_package_of_anyone", "get it there")


class FakeShop:
    """Fake of the part of WebShop's environment that the adapter uses."""

    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, **asked: Any) -> None:
        self.made.append(asked)
        self.server = "the shop"
        self.page = "first"

    def reset(self, session: int) -> tuple[str, None]:
        return f"goal {session} [SEP] Search", None

    def get_available_actions(self) -> dict[str, Any]:
        first = self.page == "first"
        return {"has_search_bar": first, "clickables": ["search" if first else "Buy Now"]}

    def step(self, action: str) -> tuple[str, float, bool, None]:
        if action.startswith("search"):
            self.page = "found"
            return action, 0.0, False, None
        return "bought", 0.5, True, None

    def close(self) -> None:
        self.page = "closed"


async def test_shopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent searches on the first page and clicks the offered items; buying an item that
    matches by half gives half a reward and no success; the products are loaded once for all
    visits."""
    fake = ModuleType("web_agent_site.envs")
    fake.__dict__.update(WebAgentTextEnv=FakeShop)
    monkeypatch.setitem(sys.modules, "web_agent_site", ModuleType("web_agent_site"))
    monkeypatch.setitem(sys.modules, "web_agent_site.envs", fake)
    webshop._server.cache_clear()
    (tmp_path / "test_indices.json").write_text("[12, 7]")
    items = load("webshop", tmp_path)
    assert [item.key for item in items] == ["12", "7"]
    world = world_of("webshop", items[0])
    assert await world.begin() == "goal 12 [SEP] Search"
    nothing = await world.use("click", '{"value": "Buy Now"}')
    assert nothing.error_type == "tool_error" and "there are: search" in nothing.content
    assert (await world.use("search", '{"keywords": "red hat"}')).content == "search[red hat]"
    assert (await world.use("search", '{"keywords": "hat"}')).error_type == "tool_error"
    assert (await world.use("click", '{"value": "buy now"}')).content == "bought"
    score = await scored(world)
    assert world.over() and score.value == 0.5 and not score.correct
    await world_of("webshop", items[1]).begin()
    await world_of("webshop", items[1]).begin()
    assert [each.get("server") for each in FakeShop.made] == [None, *["the shop"] * 3]
    prefixes = {each["session_prefix"] for each in FakeShop.made[1:]}
    assert len(prefixes) == 3, "two visits for one goal share no cart"
    await world.close()
    (tmp_path / "test_indices.json").write_text('["a"]')
    with pytest.raises(BadRow, match="whole numbers"):
        load("webshop", tmp_path)
    webshop._server.cache_clear()


async def test_a_game_that_does_not_end_well(
    tmp_path: Path, fake: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The failure to close a game is logged; the attempt is over, and its sweep continues."""
    (item,) = load("textworld", games(tmp_path, "one.z8"))
    world = world_of("textworld", item)
    await world.begin()
    fake[0][3].close = lambda: 1 / 0
    await world.close()
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("state", [None, {}, {"reward": True}, {"reward": 2}, {"reward": "1"}])
async def test_no_reward_is_no_score(state: dict[str, Any] | None) -> None:
    """Without a number from 0 to 1 the scorer fails; the answer is not wrong."""
    with pytest.raises(ScorerFailed, match="reward"):
        await SCORERS["reward"].score({}, Submission(None, state=state), ScoringResources())
