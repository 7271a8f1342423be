"""Files of labels and targets: they score a gateway's programs, or are compared with scores.

In: a JSONL file, a line a program: ``{"program": …}``, or ``attempt_id`` or ``task_id``, with
either a label (``correct``, ``score``) or a target (``answer``, or ``target`` as a benchmark writes
it for its scorer; ``question`` for judges). ``task_id`` beside another name sets the program's
task. Out: rows of `scores`, of which the newest counts; and the tasks of `attempts`, where they are
named. `LabelAgreement` reads labels alone: ``{"attempt_id": …, "correct": true}``, or ``task_id``
where the sweep has one attempt at the task.
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tutti.storage import SCORABLE, Catalog, commit, query
from tutti.storage.maintenance import TaskOfAttempt, set_tasks
from tutti.tasks.agents.models import AUTO
from tutti.tasks.scoring import EXACT, SCORERS, Score, ScorerFailed, ScoringResources
from tutti.tasks.scoring.metrics import Agreement, agreement
from tutti.tasks.sweeps.analysis.rescore import (
    MESSAGES,
    JudgeOf,
    RescoreResult,
    ScoringRequest,
    check_scorer,
    conversations,
    is_of_gateway,
    sandbox_for,
    score_row,
    serve_judge,
    submission_of,
)
from tutti.tasks.sweeps.spec import SuiteError

NAMES = ("attempt_id", "program", "task_id")
"""How a line names what it is about, the first that it has."""
FIELDS = frozenset((*NAMES, "correct", "score", "answer", "target", "question"))
LABELS, LABELS_VERSION = "labels", "1"
"""The scorer of a line that has a verdict itself."""
AT_ONCE = 8  # attempts being scored
Parsed = TypeVar("Parsed")
AGAIN = "#"  # before the number of a program's second attempt
ATTEMPTS = """
select a.sweep_id, a.cell_id, a.attempt_id, a.task_id, a.answer, k.correct, a.status, a.started_at
from attempts a left join counted k on k.cell_id = a.cell_id and k.attempt_id = a.attempt_id
where a.sweep_id = $sweep and a.source = 'gateway' order by a.started_at, a.attempt_id
"""


@dataclass(frozen=True)
class WantedAnswer:
    """A line: what it is about, and a verdict or a target."""

    name: str
    value: str
    task_id: str | None
    label: Score | None
    target: Mapping[str, Any] | None


@dataclass
class ProgramScores(RescoreResult):
    """What came of it."""

    unscored: int = 0
    """Attempts of the sweep that no line is about."""
    uncounted: int = 0
    """Attempts that a line is about and that ended in infra errors or were cut."""
    rows: list[dict[str, Any]] = field(default_factory=list, repr=False)


async def score_programs(
    sweep_id: str,
    catalog: Catalog,
    request: ScoringRequest,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ProgramScores:
    """Score a gateway's programs by the request's file; what serves the judge is started for it.

    Without a scorer, by ``judge`` if one is named, else by exact equality. Raises SuiteError with
    file and line for what is no such line, `SandboxUnavailable`, and as `serve_judge`.
    """
    assert request.file is not None, "programs have no targets in the store"
    wanted = _read(request.file, _line, "lines")
    targets = any(line.target is not None for line in wanted)
    name = request.scorer or ("judge" if request.judge is not None else EXACT)
    if targets:
        check_scorer(name, request.judge is not None)
    if request.judge is None or not targets:
        return await _score(sweep_id, catalog, (wanted, name, request), None, on_progress)
    async with serve_judge(request.judge, request.models, catalog) as (judge_of, gateway):
        work = (wanted, name, request)
        done = await _score(sweep_id, catalog, work, judge_of, on_progress)
        await asyncio.to_thread(gateway.flush)
        return done


async def _score(
    sweep_id: str,
    catalog: Catalog,
    work: tuple[list[WantedAnswer], str, ScoringRequest],
    judge_of: JudgeOf | None,
    on_progress: Callable[[int, int], None],
) -> ProgramScores:
    lines, name, request = work
    file = request.file
    assert file is not None, "score_programs has read it"
    if not is_of_gateway(catalog, sweep_id):
        raise SuiteError(
            f"--from {file}: scores the programs of a gateway; this sweep's tasks have targets of "
            "their own (without --from), and labels are compared by --labels"
        )
    attempts = query(ATTEMPTS, catalog.home, {"sweep": sweep_id})
    pairs = _matched(lines, attempts, file)
    done = ProgramScores(unscored=len(attempts) - len(pairs))
    ready = [(row, line) for row, line in pairs if row["status"] in SCORABLE]
    done.uncounted = len(pairs) - len(ready)
    messages = dict(conversations(query(MESSAGES, catalog.home, {"sweep": sweep_id})))
    asked = [SCORERS[name]] if any(line.target is not None for line in lines) else []
    sandbox, slots = sandbox_for(asked), asyncio.Semaphore(AT_ONCE)

    async def one(row: Mapping[str, Any], line: WantedAnswer) -> None:
        async with slots:
            score = line.label
            own = messages.get(row["attempt_id"], [])
            said = submission_of(row, own, request.reasoning or AUTO)
            if score is None:
                assert line.target is not None, "a line has one of the two"
                means = ScoringResources(sandbox, judge_of(row["attempt_id"]) if judge_of else None)
                try:
                    score = await SCORERS[name].score(line.target, said, means)
                except ScorerFailed as error:
                    done.failed[row["attempt_id"]] = str(error)
            if score is not None:
                done.rows.append(score_row(row, score, said.answer))
                done.count(row, score)
            on_progress(done.scored + len(done.failed), len(ready))

    await asyncio.gather(*(one(row, line) for row, line in ready))
    _commit(sweep_id, catalog, done, pairs)
    return done


def _commit(
    sweep_id: str,
    catalog: Catalog,
    done: ProgramScores,
    pairs: list[tuple[dict[str, Any], WantedAnswer]],
) -> None:
    commit(catalog, {"scores": done.rows})
    tasks: dict[str, TaskOfAttempt] = {}
    trials: Counter[str] = Counter()
    for row, line in pairs:
        if line.task_id is not None:
            tasks[row["attempt_id"]] = TaskOfAttempt(line.task_id, trials[line.task_id])
            trials[line.task_id] += 1
    if tasks:
        set_tasks(catalog, sweep_id, tasks)


def _matched(
    lines: list[WantedAnswer], attempts: list[dict[str, Any]], file: Path
) -> list[tuple[dict[str, Any], WantedAnswer]]:
    """Each attempt that a line is about, in order of start. Raises SuiteError."""
    found: dict[str, WantedAnswer] = {}
    for number, line in enumerate(lines, 1):
        mine = [row["attempt_id"] for row in attempts if _is_about(line, row)]
        if not mine:
            raise SuiteError(f"{file}: {line.name} {line.value!r} has no attempt in this sweep")
        for attempt_id in mine:
            if attempt_id in found:
                raise SuiteError(f"{file}: {attempt_id} is scored twice (line {number} of those)")
            found[attempt_id] = line
    return [(row, found[row["attempt_id"]]) for row in attempts if row["attempt_id"] in found]


def _is_about(line: WantedAnswer, row: Mapping[str, Any]) -> bool:
    if line.name == "program":
        program, again, number = str(row["attempt_id"]).rpartition(AGAIN)
        its = program if again and number.isdigit() else row["attempt_id"]
        return bool(line.value in (its, row["attempt_id"]))
    return bool(row[line.name] == line.value)


def _read(file: Path, parse: Callable[[object], Parsed], what: str) -> list[Parsed]:
    """What `parse` makes of each line. Raises SuiteError with file and line where it raises
    ValueError, and for a file without lines."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{file}: {error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found += [parse(json.loads(line))] if line.strip() else []
        except (ValueError, RecursionError) as error:
            raise SuiteError(f"{file}:{number}: {error}") from error
    if not found:
        raise SuiteError(f"{file}: no {what}")
    return found


def _line(given: object) -> WantedAnswer:
    """Raises ValueError."""
    if not isinstance(given, dict):
        raise ValueError("not an object")
    if unknown := sorted(given.keys() - FIELDS):
        raise ValueError(f"{unknown[0]}: not known; known: {', '.join(sorted(FIELDS))}")
    named = [name for name in NAMES if name in given]
    for name in named:
        if not isinstance(given[name], str) or not given[name]:
            raise ValueError(f"{name}: {given[name]!r} is no text")
    if not named:
        raise ValueError(f"names none of {', '.join(NAMES)}")
    task_id = given["task_id"] if named[0] != "task_id" and "task_id" in given else None
    label, target = _label(given), _target(given)
    if (label is None) == (target is None):
        raise ValueError(
            "needs either a label (`correct`, `score`) or a target (`answer`, `target`)"
        )
    return WantedAnswer(named[0], given[named[0]], task_id, label, target)


def _label(given: Mapping[str, Any]) -> Score | None:
    correct, value = given.get("correct"), given.get("score")
    if correct is None and value is None:
        return None
    if not isinstance(correct, bool | None):
        raise ValueError(f"correct: {correct!r} is neither true nor false")
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
    ):
        raise ValueError(f"score: {value!r} is no number")
    value = float(bool(correct)) if value is None else float(value)
    is_right = value >= 1 if correct is None else correct
    return Score(LABELS, LABELS_VERSION, value, is_right)


def _target(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    target, answer = given.get("target"), given.get("answer")
    if target is None and answer is None:
        return None
    if target is not None and (answer is not None or not isinstance(target, dict)):
        raise ValueError("target: an object, without `answer` beside it")
    question = {"question": given["question"]} if "question" in given else {}
    return {**question, **({"answer": answer} if target is None else target)}


KEYS = ("attempt_id", "task_id")
NEWEST = """
select a.attempt_id, a.task_id, arg_max(s.correct, s.scored_at) as correct,
       arg_max(s.scorer, s.scored_at) as scorer
from attempts a left join (from scores where correct is not null) s using (attempt_id)
where a.sweep_id = $sweep group by all
"""


@dataclass(frozen=True)
class LabelAgreement:
    """What came of the comparison."""

    scorers: tuple[str, ...]
    """Whose scores were compared."""
    agreement: Agreement | None
    """None where no labelled attempt has a score."""
    unscored: int
    """Labelled attempts without one: infra or scorer errors. They are in no share."""

    @classmethod
    def read(cls, sweep_id: str, file: Path, catalog: Catalog) -> "LabelAgreement":
        """Compare a sweep's newest scores with the labels in `file`.

        Raises SuiteError with file and line for what is no label, or names no attempt, or several.
        """
        rows = query(NEWEST, catalog.home, {"sweep": sweep_id})
        by_id = {row["attempt_id"]: row for row in rows}
        by_task: dict[str, list[str]] = {}
        for row in rows:
            by_task.setdefault(row["task_id"], []).append(row["attempt_id"])
        labels: dict[str, bool] = {}

        def label(given: object) -> None:
            attempt_id, correct = _label_of(given, by_id, by_task)
            if attempt_id in labels:
                raise ValueError(f"{attempt_id} is labelled twice")
            labels[attempt_id] = correct

        _read(file, label, "labels")
        scored = {each: by_id[each] for each in labels if by_id[each]["correct"] is not None}
        pairs = [(bool(row["correct"]), labels[each]) for each, row in scored.items()]
        scorers = tuple(sorted({row["scorer"] for row in scored.values()}))
        found = agreement(pairs) if pairs else None
        return cls(scorers, found, len(labels) - len(pairs))


def _label_of(
    given: object, by_id: Mapping[str, object], by_task: Mapping[str, list[str]]
) -> tuple[str, bool]:
    """The attempt that a label is of, and what it says. Raises ValueError."""
    if not isinstance(given, dict) or not isinstance(given.get("correct"), bool):
        raise ValueError("a label is an object with `correct`, true or false")
    named = [key for key in KEYS if key in given]
    if len(named) != 1:
        raise ValueError("a label names either `attempt_id` or `task_id`")
    wanted = given[named[0]]
    if not isinstance(wanted, str):
        raise ValueError(f"{named[0]} is no text: {wanted!r}")
    found = by_task.get(wanted, []) if named[0] == "task_id" else [wanted] * (wanted in by_id)
    if len(found) != 1:
        raise ValueError(
            f"{named[0]} {wanted!r} has {len(found)} attempts in this sweep"
            + ("; label each by its attempt_id" if found else "")
        )
    return found[0], given["correct"]
