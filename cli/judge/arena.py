"""`tutti arena`: a judge compares the stored answers of sweeps or models, two at a time."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tutti import storage
from tutti.cli.base.failures import ExitCode, UsageError
from tutti.cli.base.verbs import AsJson, ModelsFile, verdict
from tutti.cli.judge.compare import known
from tutti.cli.sweep.suites import Reasoning, checked_reasoning
from tutti.tasks.platform import progress
from tutti.tasks.sweeps import analysis
from tutti.terminal import table


@verdict
def arena(
    sides: Annotated[
        list[str], typer.Argument(help="two or more sweeps (id or name), cells, models or policies")
    ],
    judge: Annotated[str, typer.Option(help="a model in the registry that compares the answers")],
    limit: Annotated[
        int | None, typer.Option(min=1, help="so many of the common tasks (all)")
    ] = None,
    reasoning: Reasoning = None,
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> ExitCode:
    """Rate sweeps or models by a judge's preferences between their stored answers.

    The judge sees each pair of answers in both orders, which takes two calls per game. Ratings are
    Bradley and Terry's on the Elo scale with mean 1000; intervals are over tasks. The first trial
    of each task counts. Games are stored: the same command resumes, and repeats no call. Exit code
    5 if games have no verdict because the judge failed, or else 4 if the games determine no
    ratings.
    """
    if len(set(sides)) < 2:
        raise UsageError("an arena needs two different sides")
    chosen = (limit, checked_reasoning(reasoning))
    found = asyncio.run(_played(list(dict.fromkeys(sides)), judge, chosen, models, as_json))
    typer.echo(_as_json(found) if as_json else "", nl=as_json)
    if not as_json:
        _show(found, judge)
    if found.failed:
        return ExitCode.INCOMPLETE
    return ExitCode.DONE if found.ratings else ExitCode.INCONCLUSIVE


async def _played(
    names: list[str], judge: str, chosen: tuple[int | None, str], models: Path, quiet: bool
) -> "analysis.ArenaResult":
    with storage.open_catalog() as catalog:
        with storage.connect(macros=("counted",)) as connection:
            sides = [
                known(connection, name, analysis.Side.find(connection, name)) for name in names
            ]
            answers = analysis.answers_of(connection, sides, *chosen)
        with progress.StageProgress("arena", Console(stderr=True, quiet=quiet)) as shown:
            return await analysis.hold_arena(sides, answers, judge, models, catalog, shown.show)


def _as_json(found: "analysis.ArenaResult") -> str:
    return json.dumps(
        {
            "arena_id": found.arena_id,
            "games": len(found.games),
            "ratings": {name: rating._asdict() for name, rating in found.ratings.items()},
            "lack": found.lack,
            "failed": dict(found.failed),
        }
    )


def _show(found: "analysis.ArenaResult", judge: str) -> None:
    names = list(found.ratings) or sorted({x for game in found.games for x in (game.a, game.b)})
    rows: list[tuple[str | None, ...]] = []
    for name in names:
        rating, share = found.ratings.get(name), found.share_of(name)
        ends = "-"
        if rating is not None and rating.low is not None and rating.high is not None:
            ends = f"{rating.low:.0f} to {rating.high:.0f}"
        elo, won = rating and f"{rating.elo:.0f}", None if share is None else f"{share:.1%}"
        games = sum(name in (game.a, game.b) for game in found.games)
        rows.append((name, elo or "-", ends, won or "-", str(games)))
    console = Console()
    heads = dict.fromkeys(("rating", "95 %", "points", "games"), "right")
    console.print(table({"side": "fold"} | heads, rows, f"judge {judge}"))
    asked = [game for game in found.games if game.call_id is not None]
    if asked:
        place = sum(game.place_decided for game in asked) / len(asked)
        console.print(f"In {place:.0%} of {len(asked)} judged games the order alone decided.")
    if found.lack:
        console.print(f"No ratings: {found.lack}.", markup=False)
    if found.failed:
        which, why = next(iter(found.failed.items()))
        first = f"{len(found.failed)} games without a verdict; the first: {which}: {why}"
        console.print(first, markup=False, highlight=False)
