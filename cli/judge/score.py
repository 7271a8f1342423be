"""`tutti score`: re-scores a stored sweep, lists the changes, and compares with labels."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tutti import storage
from tutti.cli.base.failures import ExitCode, UsageError
from tutti.cli.base.verbs import AsJson, ModelsFile, verdict
from tutti.cli.sweep.control import find_sweep
from tutti.cli.sweep.suites import Reasoning, checked_reasoning
from tutti.tasks.platform import progress
from tutti.tasks.sweeps import analysis

if TYPE_CHECKING:
    from tutti.tasks.scoring.statistics import Interval

SHOWN = 20  # changed attempts printed as text
Labels = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="human labels: JSONL (attempt_id, correct)"),
]
ScoredBy = Annotated[
    Path | None,
    typer.Option(
        "--from",
        exists=True,
        dir_okay=False,
        help="score a gateway's programs: JSONL (program, attempt_id or task_id; with correct, "
        "score, answer or target)",
    ),
]
Lost = Annotated[
    bool, typer.Option("--lost", help="only attempts that a scorer failed on and nobody scored")
]


@verdict
def score(
    sweep: Annotated[str, typer.Argument(help="a sweep's id or name (the newest)")] = "",
    scorer: Annotated[str | None, typer.Option(help="a scorer by name (the benchmark's)")] = None,
    judge: Annotated[
        str | None, typer.Option(help="a model in the registry that judges the answers")
    ] = None,
    labels: Labels = None,
    given: ScoredBy = None,
    lost: Lost = False,
    reasoning: Reasoning = None,
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> ExitCode:
    """Re-score the stored answers of a sweep; old scores are kept.

    The new scores are rows of the table scores; reports and the view results show the newest. An
    attempt that ended as scorer_error counts once it has a score.

    With --from, the programs of a gateway are scored.

    No model is called except the judge, if one is named. With --labels alone, the newest scores are
    compared with the labels and nothing is re-scored.

    Exit code 5 if an attempt could not be scored.
    """
    if given is not None and labels is not None:
        raise UsageError("--from and --labels: name one; --from takes labels, too")
    if lost and (given is not None or labels is not None):
        raise UsageError("--lost: re-scores from the store, without --from or --labels")
    chosen = reasoning and checked_reasoning(reasoning)
    request = analysis.ScoringRequest(given, scorer, judge, models, lost, chosen)
    content: dict[str, object] = {}
    lines: list[str] = []
    failed: object = None
    with storage.open_catalog() as catalog:
        sweep_id = find_sweep(catalog, sweep)
        if given is not None or labels is None or scorer is not None or judge is not None:
            with progress.StageProgress("scoring", Console(stderr=True, quiet=as_json)) as shown:
                arguments = (sweep_id, catalog, request, shown.show)
                found: analysis.RescoreResult = asyncio.run(
                    analysis.score_sweep(*arguments)
                    if given is None
                    else analysis.score_programs(*arguments)
                )
            lines, failed = _flips(found), found.failed
            content = {"scored": found.scored, "flipped": found.flipped, "failed": found.failed}
            if isinstance(found, analysis.ProgramScores):
                content |= {"unscored": found.unscored, "uncounted": found.uncounted}
                lines += _left_out(found)
        if labels is not None:
            compared = analysis.LabelAgreement.read(sweep_id, labels, catalog)
            content |= {"unscored": compared.unscored, "scorers": compared.scorers}
            agreement = compared.agreement
            content["labels"] = None if agreement is None else agreement._asdict()
            lines += _agreement(compared)
    typer.echo(json.dumps(content) if as_json else "\n".join(lines))
    return ExitCode.INCOMPLETE if failed else ExitCode.DONE


def _left_out(found: "analysis.ProgramScores") -> list[str]:
    lines = []
    if found.unscored:
        lines.append(f"{found.unscored} attempts are in no line of the file and stay as they were")
    if found.uncounted:
        lines.append(f"{found.uncounted} ended in infra errors or were cut; they are not scored")
    return lines


def _flips(found: "analysis.RescoreResult") -> list[str]:
    lines = [f"{found.scored} attempts scored, {len(found.flipped)} flipped"]
    for flip in found.flipped[:SHOWN]:
        was, now = ("right" if flip[name] else "wrong" for name in ("before", "now"))
        lines.append(f"  {flip['attempt_id']}  {was} -> {now}  {flip['answer']!r:.60}")
    if (more := len(found.flipped) - SHOWN) > 0:
        lines.append(f"  and {more} more; --json lists all")
    if found.failed:
        first = next(iter(found.failed.items()))
        lines.append(f"{len(found.failed)} could not be scored; the first: {first[0]}: {first[1]}")
    return lines


def _agreement(compared: "analysis.LabelAgreement") -> list[str]:
    left_out = f"{compared.unscored} labelled attempts have no score" if compared.unscored else ""
    found = compared.agreement
    if found is None:
        return [left_out]
    shown = [
        f"{', '.join(compared.scorers)} against labels, n = {found.n}",
        f"  agreement  {_share(found.agreement)}  {_interval(found.agreement_interval)}",
        f"  kappa      {_share(found.kappa)}  {_interval(found.kappa_interval)}",
        f"  precision  {_share(found.precision)}",
        f"  recall     {_share(found.recall)}",
    ]
    return [*shown, left_out] if left_out else shown


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(interval: "Interval | None") -> str:
    return "" if interval is None else f"({interval[0]:.3f} to {interval[1]:.3f})"
