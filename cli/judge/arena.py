"""`tutti arena`: a judge compares the stored answers of sweeps or models, two at a time."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutti.cli.failures import ExitCode, UsageError, conclude
from tutti.cli.judge.compare import known
from tutti.cli.options import AsJson, ExitZero, ModelsFile
from tutti.cli.sweep.suites import Reasoning, checked_reasoning

if TYPE_CHECKING:
    from tutti.tasks.sweeps.judge import ArenaResult


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(arena)


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
    exit_zero: ExitZero = False,
    as_json: AsJson = False,
) -> None:
    """Rate sweeps or models by a judge's preferences between their stored answers.

    The judge sees each pair of answers in both orders: two calls a game. Ratings are Bradley and
    Terry's on the Elo scale with mean 1000; intervals are over tasks. The first trial of each task
    counts. Games are kept: the same command goes on where it was, and asks nothing twice. Exit
    code 5 if games have no verdict because the judge failed, or else 4 if the games determine no
    ratings.
    """

    def work() -> ExitCode:
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

    conclude(work, exit_zero)


async def _played(
    names: list[str], judge: str, chosen: tuple[int | None, str], models: Path, quiet: bool
) -> "ArenaResult":
    from rich.console import Console

    from tutti import storage
    from tutti.tasks.progress import StageProgress
    from tutti.tasks.sweeps.judge import answers_of, find_side, hold_arena

    with storage.open_catalog() as catalog:
        with storage.connect(macros=("counted",)) as connection:
            sides = [known(connection, name, find_side(connection, name)) for name in names]
            answers = answers_of(connection, sides, *chosen)
        with StageProgress("arena", Console(stderr=True, quiet=quiet)) as shown:
            return await hold_arena(sides, answers, judge, models, catalog, shown.show)


def _as_json(found: "ArenaResult") -> str:
    return json.dumps(
        {
            "arena_id": found.arena_id,
            "games": len(found.games),
            "ratings": {name: rating._asdict() for name, rating in found.ratings.items()},
            "lack": found.lack,
            "failed": dict(found.failed),
        }
    )


def _show(found: "ArenaResult", judge: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from tutti.tasks.sweeps.judge import won_share

    names = list(found.ratings) or sorted({x for game in found.games for x in (game.a, game.b)})
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=f"judge {judge}")
    table.add_column("side", overflow="fold")
    for head in ("rating", "95 %", "points", "games"):
        table.add_column(head, justify="right", no_wrap=True)
    for name in names:
        rating, share = found.ratings.get(name), won_share(found.games, name)
        ends = "-"
        if rating is not None and rating.low is not None and rating.high is not None:
            ends = f"{rating.low:.0f} to {rating.high:.0f}"
        table.add_row(
            name,
            "-" if rating is None else f"{rating.elo:.0f}",
            ends,
            "-" if share is None else f"{share:.1%}",
            str(sum(name in (game.a, game.b) for game in found.games)),
        )
    console = Console()
    console.print(table)
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
