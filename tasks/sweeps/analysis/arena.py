"""An arena: a judge compares the stored answers of several sides, two at a time, in both orders.

In: sides (sweeps, cells, models, policies), and a judge. Out: one game per task for each pair of
sides, stored as it is played so that a killed arena resumes; ratings by Bradley and Terry with
intervals over tasks; a row of `verdicts` for each pair, metric ``preference``.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from tutti.storage import Catalog, artifact_id, content_hash
from tutti.storage import catalog as cat
from tutti.tasks.agents.models import AUTO, separated
from tutti.tasks.scoring import SCORERS, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.metrics import NotComparable, Rating, ratings
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.serving.registry import pick_models
from tutti.tasks.sweeps.analysis.compare import Side
from tutti.tasks.sweeps.analysis.rescore import JudgeOf, serve_judge
from tutti.tasks.sweeps.plan import Deployment
from tutti.tasks.sweeps.run import reply_in
from tutti.tasks.sweeps.spec import SuiteError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AT_ONCE = 8  # games being judged
GAMES = "games.jsonl"
METRIC = "preference"
TIE = 0.5
# Of each task the first counted attempt, with its last message and its answer.
ANSWERS = """
with last as (
    select attempt_id, arg_max({'content': content, 'reasoning': reasoning}, position) as message
    from messages
    where role = 'assistant' and call_id is not null group by attempt_id
)
select a.task_id, a.attempt_id, first(t.question order by t.template is not null) as question,
       any_value(l.message) as message, any_value(a.answer) as answer
from counted a join tasks t using (task_id) left join last l using (attempt_id)
where list_contains($cells, a.cell_id)
group by a.task_id, a.attempt_id, a.sample_id
qualify row_number() over (
    partition by a.task_id order by coalesce(a.sample_id, a.attempt_id), a.attempt_id desc) = 1
order by a.task_id
"""


@dataclass(frozen=True)
class Answer:
    attempt_id: str
    question: str
    text: str


Answers = Mapping[str, Mapping[str, Answer]]


@dataclass(frozen=True)
class Game:
    """Two answers to one task, compared in both orders."""

    task_id: str
    a: str
    b: str
    points: float
    """The points of `a`, 0 to 1: the mean over both orders, a tie being one half."""
    place_decided: int
    """1 where the judge named the same place in both orders."""
    call_id: str | None
    """The judge's first call; None where no judge was needed, since an answer was empty."""


@dataclass(frozen=True)
class ArenaResult:
    arena_id: str
    games: tuple[Game, ...]
    ratings: Mapping[str, Rating]
    """Best first; empty where the games do not determine them."""
    lack: str
    failed: Mapping[str, str]
    """Games that the judge did not decide, and why; the same command asks again."""

    def share_of(self, name: str) -> float | None:
        """Return the share of the points that a side won in its games; None without a game."""
        points = [game.points for game in self.games if game.a == name]
        points += [1 - game.points for game in self.games if game.b == name]
        return fmean(points) if points else None


def answers_of(
    connection: "DuckDBPyConnection",
    sides: Sequence[Side],
    limit: int | None,
    reasoning: str = AUTO,
) -> Answers:
    """The answers of each side to the tasks that at least two of them answered: the first `limit`
    in the order of their ids' hashes. `reasoning`: how it is separated where it was stored in the
    texts. Raises SuiteError for no such task."""
    answers: dict[str, dict[str, Answer]] = {}
    for side in sides:
        cells = [cell["cell_id"] for cell in side.cells]
        rows = connection.execute(ANSWERS, {"cells": cells}).fetchall()
        answers[side.name] = {
            task: Answer(attempt, question, _text(message, answer, reasoning))
            for task, attempt, question, message, answer in rows
        }
    counts = Counter(task for own in answers.values() for task in own)
    common = sorted((task for task, n in counts.items() if n > 1), key=content_hash)[:limit]
    if not common:
        raise SuiteError(f"no task was answered by two of {', '.join(answers)}")
    chosen = set(common)
    return {
        name: {task: answer for task, answer in own.items() if task in chosen}
        for name, own in answers.items()
    }


def _text(message: Mapping[str, str | None] | None, answer: str | None, reasoning: str) -> str:
    """The last message without its reasoning, or the answer where no message is stored."""
    if message is None or not (message["content"] or message["reasoning"]):
        return reply_in(answer, reasoning) or ""
    return separated(message, reasoning)["content"] or ""


async def play(
    answers: Answers,
    judge: str,
    judge_of: JudgeOf,
    catalog: Catalog,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ArenaResult:
    """Play the missing games of an arena. `judge` is the judge's part of the arena's id."""
    attempts = {n: {t: a.attempt_id for t, a in own.items()} for n, own in answers.items()}
    scorer = SCORERS["pairwise"]
    content = {"judge": judge, "scorer": [scorer.name, scorer.version], "attempts": attempts}
    arena_id = artifact_id("arena", content)
    folder = catalog.home.artifact_folder(arena_id)
    folder.mkdir(parents=True, exist_ok=True)
    played = _played(folder / GAMES)
    pairs = [
        (task, a, b)
        for a, b in combinations(answers, 2)
        for task in answers[a]
        if task in answers[b]
    ]
    failed: dict[str, str] = {}
    slots = asyncio.Semaphore(AT_ONCE)
    with (folder / GAMES).open("a") as file:

        async def one(task: str, a: str, b: str) -> None:
            async with slots:
                try:
                    game = await _game(task, (a, answers[a][task]), (b, answers[b][task]), judge_of)
                except ScorerFailed as error:
                    failed[f"{task}: {a} against {b}"] = str(error)
                else:
                    played[task, a, b] = game
                    file.write(json.dumps(asdict(game)) + "\n")
                    file.flush()
                on_progress(len(played) + len(failed), len(pairs))

        missing = [pair for pair in pairs if pair not in played]
        await asyncio.gather(*(one(*pair) for pair in missing))
        os.fsync(file.fileno())
    games = tuple(played[pair] for pair in pairs if pair in played)
    catalog.enter_artifact(arena_id, {"judge": judge, "sides": list(answers)}, (), folder)
    rated: Mapping[str, Rating] = {}
    lack = ""
    try:
        rows = [(game.a, game.b, game.points) for game in games]
        rated = ratings(rows, [game.task_id for game in games])
    except NotComparable as error:
        lack = str(error)
    return ArenaResult(arena_id, games, rated, lack, failed)


def _played(path: Path) -> dict[tuple[str, str, str], Game]:
    """Return the games of an earlier call; a truncated last line is played again."""
    whole, _, _ = path.read_text().rpartition("\n") if path.is_file() else ("", "", "")
    games = [Game(**json.loads(line)) for line in whole.splitlines()]
    path.write_text("".join(f"{line}\n" for line in whole.splitlines()))
    return {(game.task_id, game.a, game.b): game for game in games}


async def _game(
    task: str, first: tuple[str, Answer], second: tuple[str, Answer], judge_of: JudgeOf
) -> Game:
    """Play a game; an empty answer loses to another one without a call. Raises ScorerFailed."""
    (a, one), (b, other) = first, second
    if not (one.text.strip() and other.text.strip()):
        points = TIE + (bool(one.text.strip()) - bool(other.text.strip())) / 2
        return Game(task, a, b, points, 0, None)
    target = {"question": one.question, "baseline": other.text}
    resources = ScoringResources(judge=judge_of(one.attempt_id))
    score = await SCORERS["pairwise"].score(target, Submission(None, one.text), resources)
    decided = int(score.detail["place_decided"])
    return Game(task, a, b, score.value, decided, score.judge_call_id)


def enter_preferences(catalog: Catalog, sides: Sequence[Side], result: ArenaResult) -> None:
    """Enter a row in `verdicts` for each pair: the share of points of the second minus one half."""
    cells = {side.name: ",".join(cell["cell_id"] for cell in side.cells) for side in sides}
    with catalog.transaction() as connection:
        for a, b in combinations(cells, 2):
            points = [[1 - game.points] for game in result.games if (game.a, game.b) == (a, b)]
            if not points:
                continue
            mean, low, high = mean_interval(points)[:3]
            verdict = "inconclusive"
            if low is not None and high is not None and not low <= TIE <= high:
                verdict = "better" if low > TIE else "worse"
            row = {
                "verdict_id": f"verdict:{content_hash([result.arena_id, a, b])}",
                "cell_a": cells[a],
                "cell_b": cells[b],
                "metric": METRIC,
                "n": len(points),
                "difference": mean - TIE,
                "ci_low": None if low is None else low - TIE,
                "ci_high": None if high is None else high - TIE,
                "verdict": verdict,
                "reason": f"{result.arena_id}: {b} against {a}, {len(points)} games in both orders",
                "detail": json.dumps({"arena": result.arena_id, "a": a, "b": b}),
                "created_at": cat.now(),
            }
            cat.upsert(connection, cat.verdicts, row)


def judge_identity(judge: str, models: Path, catalog: Catalog) -> str:
    """A judge in ids: as in those of sweeps, what serves it and what it is sent.

    Raises RegistryError.
    """
    served = Deployment(pick_models(models, (judge,)), catalog).served[judge]
    return f"{judge}-{content_hash(served.content)}"


async def hold_arena(
    sides: Sequence[Side],
    answers: Answers,
    judge: str,
    models: Path,
    catalog: Catalog,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ArenaResult:
    """Let a judge compare stored answers, and enter its preferences; its engine is started.

    Raises as `serve_judge` and `play`.
    """
    identity = judge_identity(judge, models, catalog)
    async with serve_judge(judge, models, catalog) as (judge_of, _):
        result = await play(answers, identity, judge_of, catalog, on_progress)
    enter_preferences(catalog, sides, result)
    return result
