"""Import of the results of Terminal-Bench's own program (``tb run``, package ``terminal-bench``).

In: a run's folder, a folder of runs, or one ``results.json``; without one of the run, those of its
trials. Out: an `ImportedAttempt` for each trial. The verdict is the program's: a trial that is not
resolved is wrong, whatever failed, so that no trial is an infra_error and accuracy is the file's.
Tokens are a trial's sums; the program writes 0 if an agent reports none, so 0 is read as unknown.
Source: ``harness/models.py`` and ``harness/harness.py`` of terminal-bench 0.2.18.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tutti.tasks.exchange.base.fields import (
    POSITIVE,
    Fields,
    compact,
    detail_text,
    document,
    readable,
    seconds,
    take,
)
from tutti.tasks.exchange.base.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportIssue,
    Row,
    shown,
)

SCORER = "terminal-bench"
RESULTS, METADATA = "results.json", "run_metadata.json"
STATUS = {
    "unset": "ok",
    "none": "ok",
    "test_timeout": "ok",
    "parse_error": "ok",
    "agent_timeout": "limit",
    "context_length_exceeded": "limit",
    "output_length_exceeded": "limit",
    "fatal_llm_parse_error": "model_error",
    "unknown_agent_error": "model_error",
    "agent_installation_failed": "model_error",
    "unknown": "model_error",
}
"""Maps a trial's failure mode to our status, always one that counts. What its tests lack
(test_timeout, parse_error) is no failure of the agent's."""
NUMBERED = re.compile(r"\.(\d{1,6})-of-\d+\.")  # in a trial's name: TASK.1-of-5.RUN
SETTINGS = ("agent_name", "dataset_name", "dataset_version", "n_attempts", "commit_hash")


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials at `path`, and the issues; `run` names a run without a run id."""
    below = sorted(path.rglob(RESULTS), key=lambda file: (len(file.parts), file))
    files = [path] if path.is_file() else below
    if not files:
        yield ImportIssue(path, None, "", f"there is no {RESULTS} in this folder")
    done: list[Path] = []
    runs: dict[Path, _Run] = {}
    for file in files:
        if any(file.is_relative_to(folder) for folder in done):
            continue  # a trial's own file; the run's has the trial, too
        found = document(file)
        if isinstance(found, ImportIssue):
            yield found
        elif "results" in found:
            done.append(file.parent)
            settings = _Run(file.absolute().parent, run)
            yield from settings.issues
            for trial in found.each("results"):
                own = Fields(file, None, trial.data, [], trial.path)
                yield from take([own], settings.attempt)
            yield from found.problems
        else:
            parents = file.absolute().parents  # RUN/TASK/TRIAL/results.json
            folder = parents[min(2, len(parents) - 1)]
            if folder not in runs:
                runs[folder] = _Run(folder, run)
                yield from runs[folder].issues
            yield from take([found], runs[folder].attempt)


class _Run:
    def __init__(self, folder: Path, run: str) -> None:
        metadata = readable(folder / METADATA)
        agent = metadata.identity("agent_name")
        self.cell = Cell(
            run=metadata.identity("run_id") or run,
            benchmark=metadata.identity("dataset_name") or SCORER,
            model=metadata.identity("model_name") or agent or "unknown",
            concurrency=metadata.read("n_concurrent_trials", POSITIVE),
            detail=metadata.picked(SETTINGS),
        )
        self.issues = metadata.problems
        self._seen: Counter[str] = Counter()

    def attempt(self, fields: Fields) -> list[ImportedItem]:
        task = fields.needed("task_id", fields.identity("task_id"))
        resolved = fields.flag("is_resolved")
        if resolved is None and fields.data.get("is_resolved", "") is not None:
            fields.refuse("is_resolved", "has no verdict")
        match = NUMBERED.search(fields.text("trial_name") or "")
        number = int(match[1]) - 1 if match else self._seen[task]
        self._seen[task] += 1
        trial = ImportedAttempt(self.cell, task, max(number, 0), file=fields.file)
        trial.outcome = _outcome(fields)
        tests = fields.inner("parser_results").data or None
        detail = detail_text(failure_mode=fields.get("failure_mode"), tests=tests)
        trial.score(SCORER, float(bool(resolved)), bool(resolved), detail=detail)
        if (instruction := fields.text("instruction")) is not None:
            trial.messages = [{"role": "user", "content": instruction}]
        return [trial]


def _outcome(fields: Fields) -> Row:
    mode = fields.text("failure_mode") or "unset"
    if mode not in STATUS:
        fields.problem("failure_mode", f"{shown(mode)} is none that is known")
    status = STATUS.get(mode, "ok")
    start = fields.time("agent_started_at") or fields.time("trial_started_at")
    end = fields.time("agent_ended_at") or fields.time("trial_ended_at")
    return compact(
        status=status,
        stop_reason="ended" if mode in ("unset", "none") else mode,
        error_type=mode if status == "model_error" else None,
        started_at=start,
        ended_at=end,
        working_s=seconds(start, end),
        prompt_tokens=fields.count("total_input_tokens") or None,
        completion_tokens=fields.count("total_output_tokens") or None,
    )
