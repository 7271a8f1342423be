"""Tests of the arena: games stored as they are played, ratings in the right order, verdicts per
pair, and detection of a judge that only considers position."""

import json
from pathlib import Path

import pytest
import yaml

from tests.serving.test_identity import MODEL, mark_of
from tests.sweeps.conftest import Sweep, plan_of
from tests.sweeps.tasks_entered import enter_tasks
from tutti import storage
from tutti.storage import Catalog, Home, query
from tutti.tasks.platform.identity import NOT_IN_ID
from tutti.tasks.scoring import JudgeSettings, ScorerFailed
from tutti.tasks.serving.registry.models import Model
from tutti.tasks.sweeps.analysis.arena import (
    Answer,
    Answers,
    answers_of,
    enter_preferences,
    judge_identity,
    play,
)
from tutti.tasks.sweeps.analysis.compare import Side
from tutti.tasks.sweeps.spec import SuiteError

STRENGTH = {"strong": 3, "middle": 2, "weak": 1}
UPSETS = 4  # of so many tasks, one that the weaker side wins


class Judge:
    """Judge that prefers the stronger side's answer except for every fourth task, and counts its
    calls."""

    def __init__(self, always: str | None = None, dies_after: int = 1_000_000) -> None:
        self.asked, self.always, self.left = 0, always, dies_after

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        """Return a verdict line in the format that the scorer requests."""
        if self.left <= 0:
            raise ScorerFailed("the judge's call failed: gone")
        self.left -= 1
        self.asked += 1
        places = {
            name: prompt.index(f"{name} says") for name in STRENGTH if f"{name} says" in prompt
        }
        first, second = sorted(places, key=lambda name: places[name])
        number = int(prompt.split("task ")[1].split()[0].rstrip(".?,"))
        best = max(first, second, key=lambda name: STRENGTH[name])
        if number % UPSETS == 0:
            best = first if best == second else second
        label = self.always or ("A" if best == first else "B")
        return f"Verdict: {label}", f"call-{self.asked}"


def made(tasks: int = 24) -> Answers:
    """Return three sides that answered every task."""
    return {
        name: {
            f"task:{n}": Answer(f"{name}-{n}", f"task {n} ?", f"{name} says so")
            for n in range(tasks)
        }
        for name in STRENGTH
    }


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(Home(tmp_path))


async def test_the_stronger_side_is_rated_higher(catalog: Catalog) -> None:
    """Each pair plays in both orders on each task; intervals contain the ratings, and points add
    up."""
    judge = Judge()
    found = await play(made(), "j", lambda _: judge, catalog)
    assert list(found.ratings) == ["strong", "middle", "weak"] and not found.failed
    assert judge.asked == 2 * 3 * 24 == 2 * len(found.games)
    for rating in found.ratings.values():
        assert rating.low is not None and rating.high is not None
        assert rating.low <= rating.elo <= rating.high
    shares = [found.share_of(name) for name in STRENGTH]
    assert shares == [0.75, 0.5, 0.25]
    assert not any(game.place_decided for game in found.games)


async def test_a_judge_of_places_makes_ties(catalog: Catalog) -> None:
    """The judge prefers the first answer: no side gains, and the position bias is counted."""
    judge = Judge(always="A")
    found = await play(made(), "j", lambda _: judge, catalog)
    assert {game.points for game in found.games} == {0.5}
    assert all(game.place_decided for game in found.games)
    assert {round(rating.elo) for rating in found.ratings.values()} == {1000}


async def test_a_killed_arena_goes_on_and_asks_nothing_twice(catalog: Catalog) -> None:
    """This also holds for a truncated line; the result is that of an undisturbed arena."""
    first = await play(made(), "j", lambda _: Judge(dies_after=1), catalog)
    assert first.failed and "gone" in next(iter(first.failed.values()))
    judge = Judge(dies_after=41)
    half = await play(made(), "j", lambda _: judge, catalog)
    file = catalog.home.artifact_folder(half.arena_id) / "games.jsonl"
    with file.open("a") as lines:
        lines.write('{"task_id": "task:1", "a": "str')
    rest = Judge()
    whole = await play(made(), "j", lambda _: rest, catalog)
    assert rest.asked == 2 * (3 * 24 - len(half.games)) and not whole.failed
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 3 * 24
    again = Judge()
    assert (await play(made(), "j", lambda _: again, catalog)).games == whole.games
    assert again.asked == 0
    assert (await play(made(), "other", lambda _: again, catalog)).arena_id != whole.arena_id


@pytest.mark.parametrize("name", sorted(MODEL))
def test_the_judges_id_is_of_what_determines_its_verdicts(name: str, catalog: Catalog) -> None:
    """A change of a field that is in no id does not repeat the games."""
    ids = []
    for fields in ({}, {name: MODEL[name]}):
        given = {"provider": "openai", "endpoint": "http://a:1/v1", "context_tokens": 64} | fields
        file = catalog.home.root / "models.yaml"
        file.write_text(yaml.safe_dump({"models": {"j": given}}))
        ids.append(judge_identity("j", file, catalog))
    assert ids[0].startswith("j-") and (ids[0] == ids[1]) == (mark_of(Model, name) == NOT_IN_ID)


async def test_an_empty_answer_loses_without_a_call(catalog: Catalog) -> None:
    """Two empty answers are a tie."""
    said = {
        "a": {"t": Answer("a1", "q", "words"), "u": Answer("a2", "q", " ")},
        "b": {"t": Answer("b1", "q", ""), "u": Answer("b2", "q", "")},
    }
    found = await play(said, "j", lambda _: Judge(), catalog)
    assert [game.points for game in found.games] == [1.0, 0.5]
    assert not found.ratings or found.ratings["a"].elo > found.ratings["b"].elo


async def test_games_that_one_side_always_wins_rate_nobody(catalog: Catalog) -> None:
    """There is no maximum, and the arena reports this."""
    said = {
        name: {f"task:{n}": Answer(f"{name}{n}", f"task {n} ?", f"{name} says") for n in (1, 2, 3)}
        for name in ("strong", "weak")
    }
    found = await play(said, "j", lambda _: Judge(), catalog)
    assert found.ratings == {} and "no points between" in found.lack


async def test_each_pair_is_a_verdict(catalog: Catalog) -> None:
    """The figure is the second side's share of points less one half, with its interval."""
    found = await play(made(), "j", lambda _: Judge(), catalog)
    sides = [Side(name, "model", ({"cell_id": f"cell:{name}"},)) for name in STRENGTH]
    for _ in range(2):  # the same rows again
        enter_preferences(catalog, sides, found)
    rows = query(
        "select cell_a, cell_b, n, difference, ci_low, ci_high, verdict from verdicts "
        "where metric = 'preference' order by cell_a, cell_b",
        catalog.home,
    )
    assert [(row["cell_a"], row["cell_b"], row["n"], row["verdict"]) for row in rows] == [
        ("cell:middle", "cell:weak", 24, "worse"),
        ("cell:strong", "cell:middle", 24, "worse"),
        ("cell:strong", "cell:weak", 24, "worse"),
    ]
    assert all(row["ci_low"] <= row["difference"] == -0.25 <= row["ci_high"] for row in rows)


async def test_answers_are_those_of_stored_sweeps(sweep: Sweep) -> None:
    """The answer is the last message of the first trial of each common task."""
    plan = plan_of()
    enter_tasks(sweep.catalog, plan)
    sweep.agent.odd["what is 1 + 1"] = ["it is surely \\boxed{7}"]
    await sweep.run(plan, sweep.enter(plan))
    with storage.connect(sweep.catalog.home, macros=("counted",)) as connection:
        side = Side.find(connection, plan.sweep_id)
        assert side is not None
        twin = Side("twin", side.kind, side.cells)
        answers = answers_of(connection, [side, twin], None)
        some = answers_of(connection, [side, twin], 2)
        with pytest.raises(SuiteError, match="no task was answered by two of"):
            answers_of(connection, [side, Side("none", "cell", ({"cell_id": "cell:0"},))], None)
    texts = {one.question: one.text for one in answers[side.name].values()}
    assert len(texts) == 6 and texts["what is 1 + 1"] == "it is surely \\boxed{7}"
    assert answers[side.name] == answers["twin"]
    assert len(some["twin"]) == 2 and some["twin"].items() <= answers["twin"].items()
