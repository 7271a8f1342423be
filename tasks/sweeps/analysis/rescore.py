"""Score a stored sweep again, without asking the model: new rows of `scores`, and what flipped.

The old rows stay, and so does what `attempts` says: a score belongs to the version of the scorer
that gave it, and to its judge. A final state comes from the stored calls, carried out once more
(`EndStates`). An attempt that ended as `scorer_error` counts from its first score on. Scores that
came with their attempts (`came_with`), from a harness or an import, are not made again.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.errors import UsageError
from tutti.storage import SCORABLE, Catalog, commit, query
from tutti.storage import catalog as cat
from tutti.tasks import scoring, synthesis
from tutti.tasks.agents.commands import shipped_harness
from tutti.tasks.agents.models import AUTO, separated
from tutti.tasks.benchmarks import BENCHMARKS, parse_benchmark
from tutti.tasks.benchmarks.own import python_benchmark
from tutti.tasks.platform import MODELS
from tutti.tasks.sandbox import Sandbox, level_for_models
from tutti.tasks.serving.registry import pick_models
from tutti.tasks.serving.served import GatewayClient
from tutti.tasks.sweeps.plan import Deployment
from tutti.tasks.sweeps.run import open_judge, reply_in, score_columns
from tutti.tasks.sweeps.spec import SuiteError, is_domain

AT_ONCE = 8  # attempts being scored
ROWS = 2_000  # scores of one commit

ATTEMPTS = f"""
select a.sweep_id, a.cell_id, a.attempt_id, a.task_id, a.answer, k.correct, t.family,
       t.answer as target, t.question, c.task_set_id
from attempts a join cells c using (cell_id)
join tasks t on t.task_id = a.task_id and t.task_set_id = c.task_set_id
left join counted k on k.cell_id = a.cell_id and k.attempt_id = a.attempt_id
where a.sweep_id = $sweep and if($lost, a.status = 'scorer_error' and k.attempt_id is null,
      a.status in {SCORABLE})
order by a.cell_id, a.attempt_id
"""
MESSAGES = """
select attempt_id, role, content, reasoning, tool_calls, call_id from messages
where sweep_id = $sweep order by attempt_id, position
"""
NOT_SCORED = (
    "these replies were generated without a scorer: name one with --scorer, such as math, or a "
    "judge with --judge. Rows need the right answer, as `expected_answer`, `answer` or `target`"
)
Row = Mapping[str, Any]
JudgeOf = Callable[[str], scoring.JudgeClient]
"""Gives the judge for an attempt's id; its calls then belong to that attempt."""
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class ScoringRequest:
    file: Path | None = None
    """Targets or labels of a gateway's programs."""
    scorer: str | None = None
    judge: str | None = None
    models: Path = MODELS
    lost: bool = False
    """Only attempts that a scorer failed on and that have no score since."""
    reasoning: str | None = None
    """How reasoning in a stored text is separated; None: as the sweep's suite says, and for a
    gateway's programs ``auto``."""


@dataclass(frozen=True)
class Judging:
    """The judge of a rescoring, if there is one."""

    judge_of: JudgeOf | None = None
    before_commit: Callable[[], None] = lambda: None
    """Commits the judge's calls; called before the scores are committed."""

    def resources(self, attempt_id: str, sandbox: Sandbox | None) -> scoring.ScoringResources:
        return scoring.ScoringResources(
            sandbox, self.judge_of(attempt_id) if self.judge_of else None
        )


@dataclass
class RescoreResult:
    scored: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Attempts that the scorer could not score, and why."""
    flipped: list[dict[str, Any]] = field(default_factory=list)
    """Attempts whose `correct` is another now: attempt_id, task_id, answer, before, now."""


async def score_sweep(
    sweep_id: str,
    catalog: Catalog,
    request: ScoringRequest,
    on_progress: OnProgress = lambda done, total: None,
) -> RescoreResult:
    """Score a sweep again, with the judge's engine started for it.

    The judge's calls have the attempts' ids and no cell, so that the cells' call figures do not
    change. Raises UsageError for a gateway's programs, and as `serve_judge` and `rescore`.
    """
    if "gateway" in spec_of(catalog, sweep_id):
        raise UsageError(
            "a gateway's programs have no targets; give them, or labels, by --from FILE"
        )
    async with judging_by(request.judge, request.models, catalog) as judging:
        return await rescore(sweep_id, catalog, request, on_progress, judging)


@asynccontextmanager
async def judging_by(judge: str | None, models: Path, catalog: Catalog) -> AsyncIterator[Judging]:
    """The judging by an entry of the registry, which is served for the block; None: no judge."""
    if judge is None:
        yield Judging()
        return
    async with serve_judge(judge, models, catalog) as (judge_of, gateway):
        yield Judging(judge_of, gateway.flush)


@asynccontextmanager
async def serve_judge(
    judge: str, models: Path, catalog: Catalog
) -> AsyncIterator[tuple[JudgeOf, GatewayClient]]:
    """Serve an entry of the registry as a judge behind a gateway, for the block.

    Raises RegistryError, and as `Deployment.start`.
    """
    async with Deployment(pick_models(models, (judge,)), catalog) as deployment:
        gateway = await deployment.start()
        async with open_judge(gateway.url, deployment.served[judge]) as judge_of:
            yield judge_of, gateway


async def rescore(
    sweep_id: str,
    catalog: Catalog,
    by: ScoringRequest = ScoringRequest(),
    on_progress: OnProgress = lambda done, total: None,
    judging: Judging = Judging(),
) -> RescoreResult:
    """Score the attempts that count and those that a scorer failed on, or only the `lost` ones.

    The scorer is `by.scorer` or the benchmark's; with a judge alone, ``judge`` where the
    benchmark's asks none. Without `by.scorer`, attempts whose score came with them are in `failed`.
    Raises SuiteError for a scorer that is not known or lacks its judge, and where all came so.
    """
    attempts, unchanged = _to_score(catalog, sweep_id, by.scorer, by.lost)
    spec, judged = spec_of(catalog, sweep_id), judging.judge_of is not None
    # A suite that was stored before it had the setting has its default.
    reasoning = by.reasoning or spec.get("sampling", {}).get("reasoning", AUTO)
    details = {each: _detail(catalog, each, spec) for each in {r["task_set_id"] for r in attempts}}
    chosen = {each: _scorer_of(detail, by.scorer, judged) for each, detail in details.items()}
    sandbox = sandbox_for(chosen.values())
    messages = conversations(catalog, sweep_id)
    stated = any(each.name in COMPARE_STATES for each in chosen.values())
    ids = [row["attempt_id"] for row in attempts] if stated else []
    states = EndStates(sweep_id, ids, catalog)

    async def score(row: Row) -> tuple[scoring.Score, str | None]:
        attempt_id, scorer = row["attempt_id"], chosen[row["task_set_id"]]
        benchmark = details[row["task_set_id"]].get("benchmark")
        # A benchmark's target is stored as JSON; a task of tutti's own has its answer as it is.
        target = {"answer": row["target"]} if benchmark is None else json.loads(row["target"])
        target = {"question": row["question"], **target}
        by_command = benchmark is not None and command_of(benchmark, spec) is not None
        submitted = submission_of(row, messages.get(attempt_id, []), reasoning, by_command)
        submitted = replace(submitted, state=await states.of(attempt_id, target, scorer))
        resources = judging.resources(attempt_id, sandbox)
        return await scorer.score(target, submitted, resources), submitted.answer

    result = RescoreResult(failed=unchanged)
    await score_each(catalog, attempts, score, result, judging, on_progress)
    return result


async def score_each(
    catalog: Catalog,
    attempts: Sequence[Row],
    score_of: Callable[[Row], Awaitable[tuple[scoring.Score, str | None]]],
    result: RescoreResult,
    judging: Judging,
    on_progress: OnProgress,
) -> None:
    """Score attempts and commit the scores. `score_of` gives an attempt's score and the answer that
    was submitted; where it raises ScorerFailed the attempt is in `result.failed`."""
    slots, rows = asyncio.Semaphore(AT_ONCE), list[dict[str, Any]]()

    async def one(row: Row) -> None:
        async with slots:
            try:
                score, answer = await score_of(row)
            except scoring.ScorerFailed as error:
                result.failed[row["attempt_id"]] = str(error)
            else:
                key = {name: row[name] for name in ("sweep_id", "cell_id", "attempt_id")}
                rows.append(key | score_columns(score, answer))
                result.scored += 1
                if row["correct"] is not None and row["correct"] != score.correct:
                    flip = {name: row[name] for name in ("attempt_id", "task_id", "answer")}
                    result.flipped.append(flip | {"before": row["correct"], "now": score.correct})
            on_progress(result.scored + len(result.failed), len(attempts))

    for start in range(0, len(attempts), ROWS):
        await asyncio.gather(*(one(row) for row in attempts[start : start + ROWS]))
        await asyncio.to_thread(judging.before_commit)
        commit(catalog, {"scores": rows})
        rows.clear()


def _to_score(
    catalog: Catalog, sweep_id: str, scorer: str | None, lost: bool = False
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the attempts to score, and by attempt whose score came with it why it stays.

    Raises SuiteError if there are only the latter.
    """
    attempts = query(ATTEMPTS, catalog.home, {"sweep": sweep_id, "lost": lost})
    if lost and not attempts:
        return [], {}
    reasons = {} if scorer is not None and attempts else came_with(catalog, sweep_id)
    others = [row for row in attempts if row["task_set_id"] not in reasons]
    if reasons and not others:  # also of an import, whose tasks are not stored
        raise SuiteError("; ".join(dict.fromkeys(reasons.values())))
    unchanged = [row for row in attempts if row["task_set_id"] in reasons]
    return others, {row["attempt_id"]: reasons[row["task_set_id"]] for row in unchanged}


def _scorer_of(detail: Row, name: str | None, judged: bool) -> scoring.Scorer:
    """The scorer of that name, or the benchmark's own; with a judge, one that asks it.

    Raises SuiteError, and BenchmarkError for a file of the user's own that cannot be used.
    """
    own = detail.get("scorer", scoring.EXACT)
    if "file" in detail and name in (None, own) and not judged:
        places = dict.fromkeys([*detail.get("files", ()), detail["file"]])
        path = next((Path(place) for place in places if Path(place).is_file()), None)
        if path is None:
            raise SuiteError(
                f"there is no file {' or '.join(places)} in {Path.cwd()}, which scored this sweep; "
                "put it back, run the sweep again with the file where it is now (nothing is "
                "measured twice), or name a scorer: --scorer"
            )
        scorer = python_benchmark(own, path).own_scorer
        if scorer is None:
            raise SuiteError(f"{detail['file']}: no longer has a method `score`; give --scorer")
        return scorer
    if name is None:
        asks_judge = own in scoring.SCORERS and scoring.SCORERS[own].needs == "judge"
        name = "judge" if judged and not asks_judge else own
    if name == scoring.UNSCORED.name:
        raise SuiteError(NOT_SCORED)
    check_scorer(name, judged)
    return scoring.SCORERS[name]


def check_scorer(name: str, judged: bool) -> None:
    """Raise SuiteError for a scorer that is unknown or lacks its judge."""
    fit = {each: scorer.needs != "judge" or judged for each, scorer in scoring.SCORERS.items()}
    known = f"known: {', '.join(each for each, fits in fit.items() if fits)}"
    if name not in fit:
        raise SuiteError(f"no scorer {name!r}; {known}")
    if not fit[name]:
        raise SuiteError(f"scorer {name!r} asks a judge: name one with --judge. Without, {known}")


def _detail(catalog: Catalog, task_set_id: str, spec: Row) -> dict[str, Any]:
    """The detail of a task set's benchmark, with the `files` of the last measurement."""
    artifact = catalog.artifact(task_set_id)
    assert artifact is not None, f"{task_set_id} has cells, so it was entered"
    detail: dict[str, Any] = artifact["detail"]
    path = parse_benchmark(spec["benchmark"]).path if "benchmark" in spec else None
    if "file" in detail and path is not None:
        detail["files"] = [str(path)] if path.name == Path(detail["file"]).name else []
    return detail


def conversations(catalog: Catalog, sweep_id: str) -> dict[str, list[dict[str, Any]]]:
    """The messages of each attempt from its first answer on, as chat messages. Those whose
    reasoning is stored apart have it in `reasoning`."""
    rows = query(MESSAGES, catalog.home, {"sweep": sweep_id})
    # What came before the first answer was the prompt: its calls are not the attempt's.
    return {
        attempt: [_message(row) for row in dropwhile(lambda row: row["call_id"] is None, own)]
        for attempt, own in groupby(rows, key=lambda row: row["attempt_id"])
    }


def _message(row: Row) -> dict[str, Any]:
    message = {"role": row["role"], "content": row["content"]}
    if row["reasoning"] is not None:
        message["reasoning"] = row["reasoning"]
    if row["tool_calls"]:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in row["tool_calls"]
        ]
    return message


def submission_of(
    row: Row, messages: list[dict[str, Any]], reasoning: str, by_command: bool = False
) -> scoring.Submission:
    """The submission of an attempt, by its row and its messages, whose reasoning is separated here
    where it was stored in their text. `by_command`: the answer is a harness's, wherever it read
    it."""
    split = [
        separated(each, reasoning) if each["role"] == "assistant" else each for each in messages
    ]
    places = [n for n, each in enumerate(split) if each["role"] == "assistant"]
    if not places:
        return scoring.Submission(reply_in(row["answer"], reasoning), "", split)
    before, now = (each[places[-1]]["content"] or "" for each in (messages, split))
    answer = row["answer"]
    if answer is not None and not by_command:
        if answer == before:
            answer = now or None
        elif answer in before and answer not in now:
            answer = None  # it was read in the reasoning
    return scoring.Submission(reply_in(answer, reasoning), now, split)


def sandbox_for(scorers: Iterable[scoring.Scorer]) -> Sandbox | None:
    """Return the sandbox for these scorers; None if none needs one. Raises SandboxUnavailable."""
    needed = any(scorer.needs == "sandbox" for scorer in scorers)
    return Sandbox(level_for_models()) if needed else None


INSTEAD = {
    "tau2": 'to have tau2 score dialogues again, measure with `harness.command: "{tau2} --save '
    "FOLDER\"` and run `tau2 evaluate-trajs FOLDER`; `--scorer tool_calls` compares the agent's "
    "calls with the gold ones",
    "bfcl": "for scores of another version of the package, measure under another `name`",
}


def spec_of(catalog: Catalog, sweep_id: str) -> dict[str, Any]:
    """The suite that the sweep was measured with last; empty for a sweep that was imported."""
    rows = catalog.rows(sa.select(cat.sweeps.c.spec).where(cat.sweeps.c.sweep_id == sweep_id))
    return dict(json.loads(rows[0]["spec"] or "{}")) if rows else {}


def came_with(catalog: Catalog, sweep_id: str) -> dict[str, str]:
    """The task sets of a sweep whose scores are not made again from the store, and why, by id."""
    cells, spec, reasons = cat.cells, spec_of(catalog, sweep_id), {}
    task_sets = sa.select(cells.c.task_set_id).where(cells.c.sweep_id == sweep_id).distinct()
    for row in catalog.rows(task_sets):
        artifact = catalog.artifact(row["task_set_id"])
        detail = {} if artifact is None else artifact["detail"]
        name = str(detail.get("benchmark", ""))
        harness = shipped_harness(command_of(name, spec))
        if "imported" in detail:
            reasons[row["task_set_id"]] = (
                f"these scores were imported ({detail['imported']}), without the tasks' targets, "
                "and stay as they are; `--labels` compares them with people's"
            )
        elif artifact is not None and harness is not None:
            reasons[row["task_set_id"]] = (
                f"{name}: the package of {harness.name} scored the attempts when they were made, "
                f"and its scores stay as they are; {INSTEAD[harness.name]}"
            )
        elif detail.get("scorer") == "imported":
            reasons[row["task_set_id"]] = (
                f"{name}: the harness scored its attempts itself, and its scores stay as they are"
            )
    return reasons


def command_of(benchmark: str, spec: Mapping[str, Any]) -> str | None:
    """The command that made the attempts at a benchmark of the suite; None: tutti's agent."""
    command: str | None = (spec.get("harness") or {}).get("command")
    return command or (BENCHMARKS[benchmark].command if benchmark in BENCHMARKS else None)


COMPARE_STATES = frozenset({"dialogue", "state"})
"""Scorers that need a final state."""


class EndStates:
    """The final states of one sweep's attempts, where a scorer compares states."""

    def __init__(self, sweep_id: str, attempts: Sequence[str], catalog: Catalog) -> None:
        spec = spec_of(catalog, sweep_id)
        names = spec.get("benchmarks") or [spec.get("benchmark")]
        self._domains: dict[str, synthesis.Domain] = {}
        for name in names if attempts else ():
            choice = parse_benchmark(name) if name and is_domain(name) else None
            folder = None if choice is None else choice.path
            if choice is not None and choice.task_set is not None:
                entry = catalog.artifact(choice.task_set)
                folder = None if entry is None else entry["path"]
            folders: Sequence[Path] = ()
            with suppress(UsageError):  # `of` raises where one of them is needed
                folders = () if folder is None else synthesis.domain_folders(Path(folder))
            for each in folders:
                domain, *_ = synthesis.read_domain_folder(each)
                self._domains[domain.domain_id] = domain
        self._calls: Mapping[str, Sequence[synthesis.StoredCall] | None] = (
            synthesis.stored_calls(attempts, catalog.home) if attempts else {}
        )

    async def of(
        self, attempt_id: str, target: Mapping[str, Any], scorer: scoring.Scorer
    ) -> Mapping[str, Any] | None:
        """The state that an attempt left; None for a scorer that compares none. Raises ScorerFailed
        with what is missing."""
        if scorer.name not in COMPARE_STATES:
            return None
        if "domain" not in target:
            raise scoring.ScorerFailed(
                f"{scorer.name}: an attempt's final state is not stored, and this benchmark's "
                "world cannot be brought to it again; run the sweep anew"
            )
        domain = self._domains.get(target["domain"])
        if domain is None:
            raise scoring.ScorerFailed(
                f"{scorer.name}: the domain {target['domain']}, which the attempt was about, is "
                "no longer in the folder or task set that was measured; put it back"
            )
        task = synthesis.DomainTask(world=synthesis.DomainSpec.model_validate(target["world"]))
        end = await synthesis.end_state(domain, task, self._calls[attempt_id])
        if end.fault:
            raise scoring.ScorerFailed(f"{scorer.name}: its final state is not known: {end.fault}")
        return {"db": end.db}
