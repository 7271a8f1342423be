"""Score a stored sweep again, without asking the model: new rows of `scores`, and what flipped.

What an attempt said is in the store; so is what its task's scorer wants to know, but for a judge,
which may be asked. A final state comes from the stored calls, carried out once more. The old rows
stay, and so does what `attempts` says: a score belongs to the version of the scorer that gave it,
and to its judge. An attempt that ended as `scorer_error` counts from its first score on. Scores
that came with their attempts (`came_with`) are not made again.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.errors import UsageError
from tutti.storage import SCORABLE, Catalog, commit, query
from tutti.storage import catalog as cat
from tutti.tasks.agents.models import AUTO, separated
from tutti.tasks.benchmarks import parse_benchmark
from tutti.tasks.benchmarks.own import python_benchmark
from tutti.tasks.project import MODELS
from tutti.tasks.sandbox import Sandbox, level_for_models
from tutti.tasks.scoring import (
    EXACT,
    SCORERS,
    UNSCORED,
    JudgeClient,
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
)
from tutti.tasks.serving import pick_models
from tutti.tasks.serving.served import GatewayClient
from tutti.tasks.sweeps.analysis.stored_scores import (
    COMPARE_STATES,
    EndStates,
    came_with,
    command_of,
)
from tutti.tasks.sweeps.plan import Deployment
from tutti.tasks.sweeps.run import open_judge, reply_in, score_columns
from tutti.tasks.sweeps.spec import SuiteError

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


JudgeOf = Callable[[str], JudgeClient]
"""By an attempt's id the judge, whose calls are then that attempt's."""


@dataclass(frozen=True)
class ScoringRequest:
    """How a sweep is scored again."""

    file: Path | None = None
    """Targets or labels of a gateway's programs."""
    scorer: str | None = None
    """None: the benchmark's own."""
    judge: str | None = None
    models: Path = MODELS
    lost: bool = False
    """Only attempts that a scorer failed on and that have no score since."""
    reasoning: str | None = None
    """How reasoning in a stored text is separated; None: as the sweep's suite says, and for a
    gateway's programs ``auto``."""


@dataclass(frozen=True)
class Judging:
    """The judge of a scoring, if there is one."""

    judge_of: JudgeOf | None = None
    before_commit: Callable[[], None] = lambda: None
    """Commits the judge's calls; called before the scores are committed."""


@dataclass
class RescoreResult:
    """What came of it."""

    scored: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Attempts that the scorer could not score, and why."""
    flipped: list[dict[str, Any]] = field(default_factory=list)
    """Attempts whose `correct` is another now: attempt_id, task_id, answer, before, now."""

    def count(self, row: Mapping[str, Any], score: Score) -> None:
        """Add the score of an attempt."""
        self.scored += 1
        if row["correct"] is not None and row["correct"] != score.correct:
            flip = {name: row[name] for name in ("attempt_id", "task_id", "answer")}
            self.flipped.append(flip | {"before": row["correct"], "now": score.correct})


async def score_sweep(
    sweep_id: str,
    catalog: Catalog,
    request: ScoringRequest,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> RescoreResult:
    """Score a sweep again; what serves the judge is started for it.

    Its calls have the attempts' ids and no cell: what a cell's calls took stays what was measured.
    Raises UsageError for a gateway's programs, and as `serve_judge` and `rescore`.
    """
    if is_of_gateway(catalog, sweep_id):
        raise UsageError(
            "a gateway's programs have no targets; give them, or labels, by --from FILE"
        )
    if request.judge is None:
        return await rescore(sweep_id, catalog, request, on_progress)
    async with serve_judge(request.judge, request.models, catalog) as (judge_of, gateway):
        judging = Judging(judge_of, gateway.flush)
        return await rescore(sweep_id, catalog, request, on_progress, judging)


def is_of_gateway(catalog: Catalog, sweep_id: str) -> bool:
    """Whether a sweep is a gateway's programs."""
    rows = catalog.rows(sa.select(cat.sweeps.c.spec).where(cat.sweeps.c.sweep_id == sweep_id))
    return any("gateway" in json.loads(row["spec"] or "{}") for row in rows)


@asynccontextmanager
async def serve_judge(
    judge: str, models: Path, catalog: Catalog
) -> AsyncIterator[tuple[JudgeOf, GatewayClient]]:
    """An entry of the registry as a judge behind a gateway, for the block.

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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    judging: Judging = Judging(),
) -> RescoreResult:
    """Score every counted attempt of a sweep and those that a scorer failed on, or only those that
    are `lost`: that a scorer failed on and that have no score since.

    By `scorer` or by the benchmark's; with a judge and no `scorer`, by ``judge`` where the
    benchmark's asks none. Without `scorer`, attempts whose score came with them stay as they are;
    of a grid with other benchmarks, they are in `failed`. Raises SuiteError for a scorer that is
    not known or needs a judge that is not given, and where every score came with its attempt.
    """
    attempts, kept = _to_score(catalog, sweep_id, by.scorer, by.lost)
    judge_of, spec = judging.judge_of, _spec(catalog, sweep_id)
    measured, reasoning = _measured_file(spec), by.reasoning or _reasoning_of(spec)
    details = {
        task_set: _detail(catalog, task_set, measured)
        for task_set in {r["task_set_id"] for r in attempts}
    }
    judged = judge_of is not None
    chosen = {task: _scorer_of(found, by.scorer, judged) for task, found in details.items()}
    sandbox = sandbox_for(chosen.values())
    messages = dict(conversations(query(MESSAGES, catalog.home, {"sweep": sweep_id})))
    stated = any(each.name in COMPARE_STATES for each in chosen.values())
    ids = [row["attempt_id"] for row in attempts] if stated else []
    states = EndStates(sweep_id, ids, catalog)
    done, slots = RescoreResult(failed=kept), asyncio.Semaphore(AT_ONCE)
    rows: list[dict[str, Any]] = []

    async def one(row: Mapping[str, Any]) -> None:
        async with slots:
            benchmark = details[row["task_set_id"]].get("benchmark")
            target = _target(row, benchmark is not None)
            means = ScoringResources(sandbox, judge_of(row["attempt_id"]) if judge_of else None)
            by_command = benchmark is not None and command_of(benchmark, spec) is not None
            said = submission_of(row, messages.get(row["attempt_id"], []), reasoning, by_command)
            its = chosen[row["task_set_id"]]
            try:
                said = replace(said, state=await states.of(row["attempt_id"], target, its))
                score = await its.score(target, said, means)
            except ScorerFailed as error:
                done.failed[row["attempt_id"]] = str(error)
            else:
                rows.append(score_row(row, score, said.answer))
                done.count(row, score)
            on_progress(done.scored + len(done.failed), len(attempts))

    for start in range(0, len(attempts), ROWS):
        await asyncio.gather(*(one(row) for row in attempts[start : start + ROWS]))
        await asyncio.to_thread(judging.before_commit)
        commit(catalog, {"scores": rows})
        rows.clear()
    return done


def _to_score(
    catalog: Catalog, sweep_id: str, scorer: str | None, lost: bool = False
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The attempts to score, and of those whose score came with them, why it stays.

    Raises SuiteError where there are none but the latter.
    """
    attempts = query(ATTEMPTS, catalog.home, {"sweep": sweep_id, "lost": lost})
    if lost and not attempts:
        return [], {}
    reasons = {} if scorer is not None and attempts else came_with(catalog, sweep_id)
    kept = [row for row in attempts if row["task_set_id"] in reasons]
    if reasons and len(kept) == len(attempts):  # also of an import, whose tasks are not stored
        raise SuiteError("; ".join(dict.fromkeys(reasons.values())))
    others = [row for row in attempts if row["task_set_id"] not in reasons]
    return others, {row["attempt_id"]: reasons[row["task_set_id"]] for row in kept}


def _scorer_of(detail: Mapping[str, Any], asked: str | None, judged: bool) -> Scorer:
    """The scorer `asked` for, or the benchmark's own; with a judge, one that asks it.

    Raises SuiteError, and BenchmarkError for a file of the user's own that cannot be used.
    """
    name = detail.get("scorer", EXACT)
    if "file" in detail and asked in (None, name) and not judged:
        own = python_benchmark(name, _found(detail)).own_scorer
        if own is None:
            raise SuiteError(f"{detail['file']}: no longer has a method `score`; give --scorer")
        return own
    if asked is None:
        asks_judge = name in SCORERS and SCORERS[name].needs == "judge"
        asked = "judge" if judged and not asks_judge else name
    if asked == UNSCORED.name:
        raise SuiteError(NOT_SCORED)
    check_scorer(asked, judged)
    return SCORERS[asked]


def check_scorer(name: str, judged: bool) -> None:
    """Raises SuiteError for a scorer that is not known, or needs a judge that is not given."""
    fit = {each: scorer.needs != "judge" or judged for each, scorer in SCORERS.items()}
    known = f"known: {', '.join(each for each, fits in fit.items() if fits)}"
    if name not in fit:
        raise SuiteError(f"no scorer {name!r}; {known}")
    if not fit[name]:
        raise SuiteError(f"scorer {name!r} asks a judge: name one with --judge. Without, {known}")


def _detail(catalog: Catalog, task_set_id: str, measured: str | None) -> dict[str, Any]:
    artifact = catalog.artifact(task_set_id)
    assert artifact is not None, f"{task_set_id} has cells, so it was entered"
    detail: dict[str, Any] = artifact["detail"]
    if "file" in detail and measured is not None:
        name = Path(detail["file"]).name
        detail["files"] = [measured] if Path(measured).name == name else []
    return detail


def _spec(catalog: Catalog, sweep_id: str) -> dict[str, Any]:
    """The suite that the sweep was measured with last; empty for a sweep that was imported."""
    sweeps = cat.sweeps
    rows = catalog.rows(sa.select(sweeps.c.spec).where(sweeps.c.sweep_id == sweep_id))
    return dict(json.loads(rows[0]["spec"] or "{}")) if rows else {}


def _measured_file(spec: Mapping[str, Any]) -> str | None:
    """The Python file that the sweep was measured with last, if it has one benchmark."""
    path = parse_benchmark(spec["benchmark"]).path if "benchmark" in spec else None
    return None if path is None else str(path)


def _reasoning_of(spec: Mapping[str, Any]) -> str:
    """The suite's `sampling.reasoning`; its default where a suite was stored before it had one."""
    return str(spec.get("sampling", {}).get("reasoning", AUTO))


def _found(detail: Mapping[str, Any]) -> Path:
    """The benchmark's file: where the sweep was measured with it, or where its task set was first
    entered from. Raises SuiteError, which names every place."""
    places = dict.fromkeys([*detail.get("files", ()), detail["file"]])
    for place in places:
        if Path(place).is_file():
            return Path(place)
    looked = " or ".join(
        place if Path(place).is_absolute() else f"{place} in {Path.cwd()}" for place in places
    )
    raise SuiteError(
        f"there is no file {looked}, which scored this sweep; put it back, run the sweep again "
        "with the file where it is now (nothing is measured twice), or name a scorer: --scorer"
    )


def conversations(
    rows: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each attempt with what it said from its first answer on, as chat messages. Those whose
    reasoning is stored apart have it in `reasoning`."""
    for attempt, members in groupby(rows, key=lambda row: row["attempt_id"]):
        # What came before the first answer was the prompt: its calls are not the attempt's.
        made = dropwhile(lambda row: row["call_id"] is None, members)
        yield attempt, [_message(row) for row in made]


def _message(row: Mapping[str, Any]) -> dict[str, Any]:
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in row["tool_calls"] or ()
    ]
    message = {"role": row["role"], "content": row["content"]}
    message |= {"reasoning": row["reasoning"]} if row["reasoning"] is not None else {}
    return message | ({"tool_calls": calls} if calls else {})


def submission_of(
    row: Mapping[str, Any],
    messages: list[dict[str, Any]],
    reasoning: str,
    by_command: bool = False,
) -> Submission:
    """What an attempt submits, by its row and its messages, whose reasoning is separated here where
    it was stored in their text. `by_command`: the answer is what a harness gave, wherever it read
    it."""
    made = [
        separated(each, reasoning) if each["role"] == "assistant" else each for each in messages
    ]
    places = [n for n, each in enumerate(made) if each["role"] == "assistant"]
    if not places:
        return Submission(reply_in(row["answer"], reasoning), "", made)
    before, now = (each[places[-1]]["content"] or "" for each in (messages, made))
    answer = row["answer"]
    if answer is not None and not by_command:
        if answer == before:
            answer = now or None
        elif answer in before and answer not in now:
            answer = None  # it was read in the reasoning
    return Submission(reply_in(answer, reasoning), now, made)


def _target(row: Mapping[str, Any], of_benchmark: bool) -> dict[str, Any]:
    """A benchmark's target is stored as JSON; a task of tutti's own has its answer as it is. The
    question, which judges want, is the task's where the target has none of its own."""
    text = row["target"]
    target: dict[str, Any] = json.loads(text) if of_benchmark else {"answer": text}
    return {"question": row["question"], **target}


def sandbox_for(scorers: Iterable[Scorer]) -> Sandbox | None:
    """The sandbox of these scorers; None where none needs one. Raises SandboxUnavailable."""
    needed = any(scorer.needs == "sandbox" for scorer in scorers)
    return Sandbox(level_for_models()) if needed else None


def score_row(row: Mapping[str, Any], score: Score, answer: str | None) -> dict[str, Any]:
    """A score in the columns of `scores`; `answer` is what was submitted."""
    key = {name: row[name] for name in ("sweep_id", "cell_id", "attempt_id")}
    return key | score_columns(score, answer)
