"""`tutti score`: re-scores a stored sweep, lists the changes, and compares with labels."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tutti import storage
from tutti.cli.failures import ExitCode, UsageError
from tutti.cli.sweep.control import find_sweep
from tutti.cli.sweep.suites import Reasoning, checked_reasoning
from tutti.cli.verbs import AsJson, ModelsFile, verdict
from tutti.tasks import progress
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

    No model is called but the judge, if one is named. With --labels alone, the newest scores are
    compared with the labels and nothing is re-scored.

    Exit code 5 if an attempt could not be scored.
    """
    with storage.open_catalog() as catalog:
        sweep_id = find_sweep(catalog, sweep)
        _check_source(sweep_id, catalog, given, labels)
        if lost and (given is not None or labels is not None):
            raise UsageError("--lost: re-scores from the store, without --from or --labels")
        said = reasoning and checked_reasoning(reasoning)
        request = analysis.ScoringRequest(given, scorer, judge, models, lost, said)
        if given is not None:
            return _programs(sweep_id, catalog, request, as_json)
        found = compared = None
        if labels is None or scorer is not None or judge is not None:
            found = _rescored(sweep_id, catalog, request, as_json)
        if labels is not None:
            compared = analysis.LabelAgreement.read(sweep_id, labels, catalog)
    typer.echo(_as_json(found, compared) if as_json else _as_text(found, compared))
    return ExitCode.DONE if found is None else _code_of(found)


def _code_of(found: "analysis.RescoreResult") -> ExitCode:
    return ExitCode.INCOMPLETE if found.failed else ExitCode.DONE


def _rescored(
    sweep_id: str, catalog: Any, request: "analysis.ScoringRequest", quiet: bool
) -> "analysis.RescoreResult":
    with progress.StageProgress("scoring", Console(stderr=True, quiet=quiet)) as shown:
        return asyncio.run(analysis.score_sweep(sweep_id, catalog, request, shown.show))


def _check_source(sweep_id: str, catalog: Any, given: Path | None, labels: Path | None) -> None:
    if given is not None and labels is not None:
        raise UsageError("--from and --labels: name one; --from takes labels, too")


def _programs(
    sweep_id: str, catalog: Any, request: "analysis.ScoringRequest", as_json: bool
) -> ExitCode:
    with progress.StageProgress("scoring", Console(stderr=True, quiet=as_json)) as shown:
        done = asyncio.run(analysis.score_programs(sweep_id, catalog, request, shown.show))
    typer.echo(_programs_as_json(done) if as_json else _programs_as_text(done))
    return _code_of(done)


def _programs_as_json(done: "analysis.ProgramScores") -> str:
    fields: dict[str, object] = {"scored": done.scored, "flipped": done.flipped}
    fields |= {"failed": done.failed, "unscored": done.unscored, "uncounted": done.uncounted}
    return json.dumps(fields)


def _programs_as_text(done: "analysis.ProgramScores") -> str:
    lines = _flips(done)
    if done.unscored:
        lines.append(f"{done.unscored} attempts are in no line of the file and stay as they were")
    if done.uncounted:
        lines.append(f"{done.uncounted} ended in infra errors or were cut; they are not scored")
    return "\n".join(lines)


def _as_json(
    found: "analysis.RescoreResult | None", compared: "analysis.LabelAgreement | None"
) -> str:
    fields: dict[str, object] = {}
    if found is not None:
        fields = {"scored": found.scored, "flipped": found.flipped, "failed": found.failed}
    if compared is not None:
        fields["unscored"], fields["scorers"] = compared.unscored, compared.scorers
        fields["labels"] = None if compared.agreement is None else compared.agreement._asdict()
    return json.dumps(fields)


def _as_text(
    found: "analysis.RescoreResult | None", compared: "analysis.LabelAgreement | None"
) -> str:
    lines = [] if found is None else _flips(found)
    return "\n".join(lines if compared is None else [*lines, *_agreement(compared)])


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
