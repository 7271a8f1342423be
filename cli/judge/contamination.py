"""`tutti contamination`: whether texts, such as a training set, contain a benchmark's questions."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tutti import storage
from tutti.cli.base.failures import ExitCode, UsageError
from tutti.cli.base.verbs import AsJson, ModelsFile, verdict
from tutti.tasks.platform import progress
from tutti.tasks.sweeps import analysis

if TYPE_CHECKING:
    from tutti.tasks.benchmarks import Task
    from tutti.tasks.scoring import JudgeClient

SHOWN = 5  # tasks printed as text


JudgeOf = Callable[[str], "JudgeClient"]


@verdict
def contamination(
    benchmark: Annotated[str, typer.Argument(help="a public benchmark, or a .jsonl or .py file")],
    against: Annotated[
        list[str],
        typer.Option(
            help="a JSONL file, document or folder, training_set:ID or index:ID; repeatable"
        ),
    ],
    source: Annotated[
        Path | None, typer.Option(help="the benchmark's data (default: download from the hub)")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="a model in the registry that says which are the same")
    ] = None,
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="the judge is asked twice, with the two swapped")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="only the first N tasks")] = None,
    out: Annotated[Path | None, typer.Option(help="write a line of JSON for each task")] = None,
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> ExitCode:
    """Look for a benchmark's questions in texts, for example of a training set.

    Without a judge a task counts where its question copies a text or a text copies it: as it is,
    in part, or with few words changed. With one, where it is one of the texts, or the judge says so
    of one of the three most similar. Exit code 5 if the judge failed to decide a task.
    """
    if both_ways and judge is None:
        raise UsageError("--both-ways: nobody is asked without --judge")

    with storage.open_catalog() as catalog:
        tasks = _tasks(benchmark, source, limit)
        texts = [text for place in against for text in analysis.read_texts(place, catalog)]
        served = None if judge is None else partial(analysis.serve_judge, judge, models, catalog)
        found = asyncio.run(_checked(tasks, texts, served, both_ways, as_json))
    if out is not None:
        out.write_text("".join(f"{json.dumps(each.row())}\n" for each in found), "utf-8")
    told = _summary(found, len(texts))
    typer.echo(json.dumps(told) if as_json else _as_text(told, found, out))
    return ExitCode.INCOMPLETE if told["failed"] else ExitCode.DONE


def _tasks(benchmark: str, source: Path | None, limit: int | None) -> "list[Task]":
    from tutti.tasks.benchmarks import Source, open_benchmark, parse_benchmark

    opened = open_benchmark(parse_benchmark(benchmark))
    return list(islice(opened.load(Source(source)), limit))


async def _checked(
    tasks: "Sequence[Task]",
    texts: Sequence[str],
    served: Callable[[], AbstractAsyncContextManager[tuple[JudgeOf, object]]] | None,
    both_ways: bool,
    quiet: bool,
) -> "list[analysis.Contaminated]":
    async with AsyncExitStack() as stack:
        asked = None
        if served is not None:
            judge_of, _ = await stack.enter_async_context(served())
            asked = judge_of("contamination")
        with progress.StageProgress("contamination", Console(stderr=True, quiet=quiet)) as shown:
            return await analysis.check_contamination(tasks, texts, asked, shown.show, both_ways)


def _summary(found: "Sequence[analysis.Contaminated]", texts: int) -> dict[str, Any]:
    from tutti.tasks.scoring.statistics import wilson

    hit = sum(each.contaminated for each in found)
    low, high = wilson(hit, len(found)) or (None, None)
    return {
        "items": len(found),
        "texts": texts,
        "contaminated": hit,
        "share": hit / len(found) if found else None,
        "share_low": low,
        "share_high": high,
        "how": dict(Counter(how for each in found for how in each.how)),
        "failed": sum(bool(each.failed) for each in found),
    }


def _as_text(
    told: dict[str, Any], found: "Sequence[analysis.Contaminated]", out: Path | None
) -> str:
    lines = [f"{told['contaminated']} of {told['items']} tasks, among {told['texts']:,} texts"]
    if told["share_low"] is not None:
        ends = f"{told['share_low']:.1%} to {told['share_high']:.1%}"
        lines[0] += f": {told['share']:.1%} (95 %: {ends})"
    lines += [f"  {how:6} {count}" for how, count in sorted(told["how"].items())]
    hits = [each for each in found if each.contaminated]
    for each in hits[:SHOWN]:
        text, cosine = each.similar[0] if each.similar else ("", 0.0)
        lines.append(f"  {each.item_id}: {', '.join(each.how)}, {cosine:.2f}: {text[:50]!r}")
    if len(hits) > SHOWN and out is None:
        lines.append(f"  and {len(hits) - SHOWN} more; --out writes all")
    if told["failed"]:
        lines.append(f"  the judge did not decide {told['failed']}: by the rule without one")
    return "\n".join(lines)
