"""Import of the results of Terminal-Bench's own program (``tb run``, package ``terminal-bench``).

In: a run's folder, a folder of runs, or one ``results.json``; the settings come from
``run_metadata.json`` in the run's folder. Where a run has no ``results.json`` of its own, as when
it was killed early, those of its trials are taken. Out: an `ImportedAttempt` for each trial.
Harbor's job folders, which Terminal-Bench 2 has, are `tasks.exchange.atif`'s.

The verdict is the program's: a trial that is not resolved is wrong, whatever failed, and every
trial counts. So no trial is an infra_error here, and accuracy and pass@k are those of the file; the
detail of a trial's score has its failure mode and what each test said. Where the file's own count
differs from its trials, that is an issue.

Files have no messages but the instruction; the tokens are a trial's sums. The program writes 0
where an agent does not report them: 0 is taken as not known.
Source: ``harness/models.py`` and ``harness/harness.py`` of terminal-bench 0.2.18.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tutti.tasks.exchange.fields import (
    POSITIVE,
    Fields,
    compact,
    detail_text,
    document,
    readable,
    take,
)
from tutti.tasks.exchange.imported import (
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
            continue  # a trial's own, which its run's has, too
        found = document(file)
        if isinstance(found, ImportIssue):
            yield found
        elif "results" in found:
            done.append(file.parent)
            yield from _whole(found, run)
        else:
            folder = _run_folder(file)
            if folder not in runs:
                runs[folder] = _Run(folder, run)
            yield from runs[folder].trial(found)
    for settings in runs.values():
        yield from settings.issues


def _run_folder(file: Path) -> Path:
    """The run's folder of a trial's file: RUN/TASK/TRIAL/results.json."""
    parents = file.absolute().parents
    return parents[min(2, len(parents) - 1)]


def _whole(found: Fields, run: str) -> Iterator[ImportedItem]:
    settings = _Run(found.file.absolute().parent, run)
    yield from settings.issues
    members = found.array("results")
    resolved = 0
    for place, member in enumerate(members):
        where = f"results.{place}"
        if not isinstance(member, dict):
            found.problem(where, f"{shown(member)} is not a trial")
            continue
        resolved += member.get("is_resolved") is True
        yield from settings.trial(Fields(found.file, None, member, [], where))
    said = found.count("n_resolved")
    if said is not None and said != resolved:
        found.problem("n_resolved", f"is {said}, but {resolved} of its trials are resolved")
    accuracy = found.number("accuracy")
    if accuracy is not None and members and abs(accuracy - resolved / len(members)) > 1e-9:
        found.problem("accuracy", f"is {accuracy}, but {resolved} of {len(members)} are resolved")
    yield from found.problems


class _Run:
    def __init__(self, folder: Path, run: str) -> None:
        found = readable(folder / METADATA)
        detail = {name: found.data[name] for name in SETTINGS if name in found}
        agent = found.identity("agent_name")
        self.cell = Cell(
            run=found.identity("run_id") or run,
            benchmark=found.identity("dataset_name") or SCORER,
            model=found.identity("model_name") or agent or "unknown",
            concurrency=found.read("n_concurrent_trials", POSITIVE),
            detail=detail,
        )
        self.issues = found.problems
        self._seen: Counter[str] = Counter()

    def trial(self, fields: Fields) -> Iterator[ImportedItem]:
        """The trial of a record, after its issues; only these if it is refused."""
        return take([fields], self._attempt)

    def _attempt(self, fields: Fields) -> list[ImportedItem]:
        task = fields.needed("task_id", fields.identity("task_id"))
        if "is_resolved" not in fields.data:
            fields.refuse("is_resolved", "is missing: this is no trial of Terminal-Bench")
        resolved = fields.flag("is_resolved")
        if resolved is None and "is_resolved" in fields:
            fields.refuse("is_resolved", "says nothing of the verdict")
        found = NUMBERED.search(fields.text("trial_name") or "")
        number = int(found[1]) - 1 if found else self._seen[task]
        self._seen[task] += 1
        trial = ImportedAttempt(self.cell, task, max(number, 0), file=fields.file)
        trial.outcome = _outcome(fields)
        _score(fields, trial, bool(resolved))
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
    took = (end - start).total_seconds() if start and end and end >= start else None
    return {
        "status": status,
        "stop_reason": "ended" if mode in ("unset", "none") else mode,
    } | compact(
        error_type=mode if status == "model_error" else None,
        started_at=start,
        ended_at=end,
        working_s=took,
        prompt_tokens=fields.count("total_input_tokens") or None,
        completion_tokens=fields.count("total_output_tokens") or None,
    )


def _score(fields: Fields, trial: ImportedAttempt, resolved: bool) -> None:
    tests = fields.inner("parser_results").data
    detail = detail_text(failure_mode=fields.data.get("failure_mode"), tests=tests or None)
    trial.score(SCORER, float(resolved), resolved, detail=detail)
