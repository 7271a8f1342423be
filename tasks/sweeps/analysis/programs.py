"""Files of labels and targets: they score a gateway's programs, or are compared with scores.

In: a JSONL file of `ProgramLine`s: ``program``, ``attempt_id`` or ``task_id`` with a label
(``correct``, ``score``) or a target (``answer``, or ``target`` as a scorer's benchmarks write it;
``question`` for judges). Out: rows of `scores`, and of lines that name both a program and a task
the tasks of `attempts`; or the agreement of labels with the newest scores.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from tutti.storage import SCORABLE, Catalog, query
from tutti.storage.maintenance import TaskOfAttempt, set_tasks
from tutti.tasks.agents.models import AUTO
from tutti.tasks.platform import explain
from tutti.tasks.scoring import EXACT, SCORERS, Score
from tutti.tasks.scoring.metrics import Agreement, agreement
from tutti.tasks.sweeps.analysis import rescore as rescoring
from tutti.tasks.sweeps.spec import SuiteError

NAMES = ("attempt_id", "program", "task_id")
LABELS, LABELS_VERSION = "labels", "1"
"""The scorer of a line that has a verdict itself."""
AGAIN = "#"  # before the number of a program's second attempt
ATTEMPTS = """
select a.sweep_id, a.cell_id, a.attempt_id, a.task_id, a.answer, k.correct, a.status, a.started_at
from attempts a left join counted k on k.cell_id = a.cell_id and k.attempt_id = a.attempt_id
where a.sweep_id = $sweep and a.source = 'gateway' order by a.started_at, a.attempt_id
"""


class ProgramLine(BaseModel):
    """A line: what it is about, and a verdict or a target."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    attempt_id: str | None = Field(None, min_length=1)
    program: str | None = Field(None, min_length=1)
    task_id: str | None = Field(None, min_length=1)
    correct: bool | None = None
    score: FiniteFloat | None = None
    answer: Any = None
    target: dict[str, Any] | None = None
    question: Any = None

    @model_validator(mode="after")
    def _one_of_each(self) -> "ProgramLine":
        if all(getattr(self, name) is None for name in NAMES):
            raise ValueError(f"names none of {', '.join(NAMES)}")
        has_label = self.correct is not None or self.score is not None
        if has_label + (self.answer is not None) + (self.target is not None) != 1:
            raise ValueError(
                "needs either a label (`correct`, `score`) or a target (`answer` or `target`)"
            )
        return self

    @property
    def key(self) -> tuple[str, str]:
        return next((name, value) for name in NAMES if (value := getattr(self, name)) is not None)

    @property
    def label(self) -> Score | None:
        """The verdict that the line has itself."""
        if self.correct is None and self.score is None:
            return None
        value = float(bool(self.correct)) if self.score is None else self.score
        correct = value >= 1 if self.correct is None else self.correct
        return Score(LABELS, LABELS_VERSION, value, correct)

    @property
    def scorer_target(self) -> dict[str, Any]:
        question = {} if self.question is None else {"question": self.question}
        return question | ({"answer": self.answer} if self.target is None else self.target)


@dataclass
class ProgramScores(rescoring.RescoreResult):
    unscored: int = 0
    """Attempts of the sweep that no line is about."""
    uncounted: int = 0
    """Attempts that a line is about and that ended in infra errors or were cut."""


async def score_programs(
    sweep_id: str,
    catalog: Catalog,
    request: rescoring.ScoringRequest,
    on_progress: rescoring.OnProgress = lambda done, total: None,
) -> ProgramScores:
    """Score a gateway's programs by the request's file; the judge's engine is started for it.

    Without a scorer, ``judge`` is used if one is named, else exact equality. Raises SuiteError with
    file and line for an invalid line, `SandboxUnavailable`, and as `serve_judge`.
    """
    file = request.file
    assert file is not None, "programs have no targets in the store"
    lines = _read(file)
    if "gateway" not in rescoring.spec_of(catalog, sweep_id):
        raise SuiteError(
            f"--from {file}: scores the programs of a gateway; this sweep's tasks have targets of "
            "their own (without --from), and labels are compared by --labels"
        )
    scorers = []
    if any(line.label is None for line in lines):
        name = request.scorer or ("judge" if request.judge is not None else EXACT)
        rescoring.check_scorer(name, request.judge is not None)
        scorers = [SCORERS[name]]
    attempts = query(ATTEMPTS, catalog.home, {"sweep": sweep_id})
    line_of: dict[str, ProgramLine] = {}
    for line, own in zip(lines, _matches(lines, attempts, file), strict=True):
        for row in own:
            if row["attempt_id"] in line_of:
                raise SuiteError(f"{file}: {row['attempt_id']} is scored twice")
            line_of[row["attempt_id"]] = line
    named = [row for row in attempts if row["attempt_id"] in line_of]
    ready = [row for row in named if row["status"] in SCORABLE]
    result = ProgramScores(unscored=len(attempts) - len(named), uncounted=len(named) - len(ready))
    messages = rescoring.conversations(catalog, sweep_id)
    sandbox = rescoring.sandbox_for(scorers)
    judge = request.judge if scorers else None
    async with rescoring.judging_by(judge, request.models, catalog) as judging:

        async def score(row: rescoring.Row) -> tuple[Score, str | None]:
            attempt_id, line = row["attempt_id"], line_of[row["attempt_id"]]
            own, reasoning = messages.get(attempt_id, []), request.reasoning or AUTO
            submitted = rescoring.submission_of(row, own, reasoning)
            if (label := line.label) is not None:
                return label, submitted.answer
            resources = judging.resources(attempt_id, sandbox)
            scored = await scorers[0].score(line.scorer_target, submitted, resources)
            return scored, submitted.answer

        await rescoring.score_each(catalog, ready, score, result, judging, on_progress)
    tasks: dict[str, TaskOfAttempt] = {}
    trials: Counter[str] = Counter()
    for row in named:
        line = line_of[row["attempt_id"]]
        if line.task_id is not None and line.key[0] != "task_id":
            tasks[row["attempt_id"]] = TaskOfAttempt(line.task_id, trials[line.task_id])
            trials[line.task_id] += 1
    if tasks:
        set_tasks(catalog, sweep_id, tasks)
    return result


def _read(file: Path) -> list[ProgramLine]:
    """The file's lines. Raises SuiteError with file, line, field and value."""
    try:
        texts = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{file}: {error}") from error
    lines = []
    for number, text in enumerate(texts, 1):
        try:
            lines += [ProgramLine.model_validate_json(text)] if text.strip() else []
        except ValidationError as error:
            raise SuiteError(f"{file}:{number}: {explain(error, model=ProgramLine)}") from error
    if not lines:
        raise SuiteError(f"{file}: no lines")
    return lines


def _matches(
    lines: Sequence[ProgramLine], attempts: Sequence[rescoring.Row], file: Path | None
) -> list[list[rescoring.Row]]:
    """The attempts that each line is about, in their order. Raises SuiteError where there are
    none."""
    by_key: dict[tuple[str, str], list[rescoring.Row]] = {}
    for row in attempts:
        attempt_id = row["attempt_id"]
        program, again, number = attempt_id.rpartition(AGAIN)
        programs = {attempt_id, program if again and number.isdigit() else attempt_id}
        for key in (("attempt_id", attempt_id), ("task_id", row["task_id"])):
            by_key.setdefault(key, []).append(row)
        for each in programs:
            by_key.setdefault(("program", each), []).append(row)
    for line in lines:
        if line.key not in by_key:
            raise SuiteError(f"{file}: {line.key[0]} {line.key[1]!r} has no attempt in this sweep")
    return [by_key[line.key] for line in lines]


NEWEST = """
select a.attempt_id, a.task_id, arg_max(s.correct, s.scored_at) as correct,
       arg_max(s.scorer, s.scored_at) as scorer
from attempts a left join (from scores where correct is not null) s using (attempt_id)
where a.sweep_id = $sweep group by all
"""


@dataclass(frozen=True)
class LabelAgreement:
    """The agreement of scores with labels."""

    scorers: tuple[str, ...]
    agreement: Agreement | None
    """None where no labelled attempt has a score."""
    unscored: int
    """Labelled attempts without one: infra or scorer errors. They are in no share."""

    @classmethod
    def read(cls, sweep_id: str, file: Path, catalog: Catalog) -> "LabelAgreement":
        """Compare a sweep's newest scores with the labels in `file`.

        Raises SuiteError with file and line if a line is no label, or names no attempt, or several.
        """
        lines = _read(file)
        rows = query(NEWEST, catalog.home, {"sweep": sweep_id})
        labels: dict[str, tuple[Mapping[str, Any], bool]] = {}
        for line, own in zip(lines, _matches(lines, rows, file), strict=True):
            name = " ".join(line.key)
            if line.correct is None:
                raise SuiteError(f"{file}: {name}: a label has `correct`, true or false")
            if len(own) != 1 or own[0]["attempt_id"] in labels:
                raise SuiteError(
                    f"{file}: {name} has {len(own)} attempts in this sweep, or was labelled "
                    "before; label each attempt once, by its attempt_id"
                )
            labels[own[0]["attempt_id"]] = own[0], line.correct
        scored = [(row, label) for row, label in labels.values() if row["correct"] is not None]
        pairs = [(bool(row["correct"]), label) for row, label in scored]
        scorers = tuple(sorted({row["scorer"] for row, _ in scored}))
        return cls(scorers, agreement(pairs) if pairs else None, len(labels) - len(pairs))
