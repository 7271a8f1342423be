"""Export to Inspect: one `.eval` file per cell, so that ``inspect view`` shows the trajectories.

In: attempts, grouped by cell. Out: files as inspect_ai writes them (a zip with `header.json`,
`summaries.json` and a JSON file per sample, format version 2). They are written sample by sample,
so that a cell of any size fits in memory. Values without a field in Inspect are under
`metadata.tutti`. Token ids and log probabilities of calls and retrievals are not exported.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalScore,
    EvalSpec,
    EvalStats,
)

from tutti.tasks.exchange.imported import Cell, ImportedAttempt, Row
from tutti.tasks.exchange.inspect.sample import eval_sample, usage_from

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # Inspect requires a time even if it is unknown


def write(trials: Iterator[ImportedAttempt], folder: Path) -> list[Path]:
    """Write one log per cell into `folder`."""
    cells = groupby(trials, key=lambda trial: (trial.cell, trial.cell.detail.get("cell_id")))
    return [_write_log(cell, of_cell, folder) for (cell, _), of_cell in cells]


def _write_log(cell: Cell, trials: Iterator[ImportedAttempt], folder: Path) -> Path:
    totals = _Totals(cell)
    unnamed = folder / "log.part"
    with ZipFile(unnamed, "w", ZIP_DEFLATED) as archive:
        by_sample = groupby(trials, key=lambda trial: (trial.task_id, trial.trial))
        for _, attempts in by_sample:
            of_sample = list(attempts)
            sample = eval_sample(of_sample)
            name = f"samples/{sample.id}_epoch_{sample.epoch}.json"
            archive.writestr(name, _json(sample))
            totals.add(sample, of_sample[-1])
        archive.writestr("summaries.json", f"[{','.join(totals.summaries)}]")
        archive.writestr("header.json", _json(totals.header()))
    path = folder / totals.file_name()
    unnamed.rename(path)
    return path


def _json(model: Any) -> str:
    return str(model.model_dump_json(exclude_none=True))


@dataclass
class _Totals:
    """Totals over the samples, for a log's header."""

    cell: Cell
    summaries: list[str] = field(default_factory=list)
    sample_ids: dict[str, None] = field(default_factory=dict)
    epochs: int = 1
    started: datetime | None = None
    ended: datetime | None = None
    usage: Any = None
    sums: dict[str, list[float]] = field(default_factory=dict)
    """Maps each scorer to its scores."""
    failed: int = 0

    def add(self, sample: Any, last: ImportedAttempt) -> None:
        """Count one sample."""
        self.summaries.append(_json(sample.summary()))
        self.sample_ids[sample.id] = None
        self.epochs = max(self.epochs, sample.epoch)
        self.failed += sample.error is not None
        began, ended = last.outcome.get("started_at"), last.outcome.get("ended_at")
        self.started = min(filter(None, (began, self.started)), default=None)
        self.ended = max(filter(None, (ended, self.ended)), default=None)
        spent = usage_from(last.outcome)
        if spent is not None:
            self.usage = spent if self.usage is None else self.usage + spent
        for row in last.scores:
            if row.get("value") is not None and sample.error is None:
                self.sums.setdefault(row["scorer"], []).append(row["value"])

    def file_name(self) -> str:
        """A file name in Inspect's form: time, task and id with underscores between them."""
        cell = self.cell
        load = [] if cell.concurrency is None else [f"c{cell.concurrency}"]
        policy = [] if cell.policy is None else [cell.policy]
        task = "-".join([cell.benchmark, cell.model, *policy, *load, f"r{cell.repeat}"])
        began = (self.started or NO_TIME).strftime("%Y-%m-%dT%H-%M-%S-00-00")
        task = re.sub(r"[^A-Za-z0-9.-]+", "-", task)[:120]
        return f"{began}_{task}_{self._cell_id().replace(':', '-')}.eval"

    def _cell_id(self) -> str:
        return str(self.cell.detail.get("cell_id") or self.cell.run)

    def header(self) -> Any:
        """The log without its samples."""
        cell, began = self.cell, (self.started or NO_TIME).isoformat()
        ended = (self.ended or self.started or NO_TIME).isoformat()
        point: Row = {name: getattr(cell, name) for name in ("policy", "concurrency", "repeat")}
        names = {"benchmark": cell.benchmark, "model": cell.model}
        ids = list(self.sample_ids)
        spec = EvalSpec(
            eval_id=self._cell_id(),
            run_id=cell.run,
            created=began,
            task=cell.benchmark,
            task_id=self._cell_id(),
            task_args=point,
            tags=_tags(cell),
            dataset=EvalDataset(name=cell.benchmark, samples=len(ids), sample_ids=ids),
            model=cell.model,
            config=EvalConfig(epochs=self.epochs, max_samples=cell.concurrency),
            metadata={"tutti": {**point, **names, **cell.detail}},
        )
        done = len(self.summaries) - self.failed
        results = EvalResults(
            total_samples=len(self.summaries), completed_samples=done, scores=self._scores()
        )
        usage = {} if self.usage is None else {cell.model: self.usage}
        stats = EvalStats(started_at=began, completed_at=ended, model_usage=usage)
        return EvalLog(status="success", eval=spec, results=results, stats=stats)

    def _scores(self) -> list[Any]:
        return [
            EvalScore(
                name=scorer,
                scorer=scorer.split("/")[0],
                scored_samples=len(values),
                metrics={"mean": EvalMetric(name="mean", value=sum(values) / len(values))},
            )
            for scorer, values in self.sums.items()
        ]


def _tags(cell: Cell) -> list[str]:
    """The policy and the load where they are known, and the repeat."""
    known = [] if cell.policy is None else [cell.policy]
    known += [] if cell.concurrency is None else [f"concurrency {cell.concurrency}"]
    return [*known, f"repeat {cell.repeat}"]
