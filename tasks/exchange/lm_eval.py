"""Import of samples that lm-evaluation-harness logged.

In: a ``samples_<task>_<time>.jsonl`` (``--log_samples``) or a folder of them. The model and the
run's settings come from the ``results_<time>.json`` beside it. The time in its name is the run.

A document is a task with one trial. The file has one line per document and filter, all lines of a
filter before those of the next. It is therefore read twice: first for the scores of each document,
then for the documents. A score is named metric/filter. The first metric of the first filter sets
score and correct (value 1, where higher is better). A metric whose value is a list (perplexities,
F1) is kept in its score's detail.

Each response is a call. Log-likelihood tasks send one request per choice: the continuations and
their likelihoods are in the first score's detail, and the answer is the likeliest one.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tutti.tasks.exchange.chat import add_call, message_rows, params
from tutti.tasks.exchange.fields import (
    NUMBER,
    Fields,
    RecordRefused,
    compact,
    detail_text,
    parsed,
    readable,
    records,
    take,
)
from tutti.tasks.exchange.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportIssue,
    Row,
    json_text,
    shown,
)

NAME = re.compile(
    r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl(?:\.gz)?"
)
MODEL_ARGUMENTS = ("pretrained", "model", "path", "engine")
SETTINGS = ("model_source", "config", "lm_eval_version", "git_hash", "date", "task_hashes")
KNOWN = frozenset(
    "doc_id doc target arguments resps filtered_resps filter metrics doc_hash prompt_hash "
    "target_hash".split()
)
"""Fields of a line that are not metrics; older versions did not list their metrics."""


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials in `path`, and the issues. `run` names a file without a time."""
    files = [path] if path.is_file() else sorted(path.rglob("samples_*.jsonl*"))
    if not files:
        yield ImportIssue(path, None, "", "has no samples_*.jsonl")
    results: dict[Path, Fields] = {}
    for file in files:
        name = NAME.fullmatch(file.name)
        beside_it = _results_file(file, name["time"]) if name else None
        if beside_it is not None and beside_it not in results:
            results[beside_it] = readable(beside_it)
            yield from results[beside_it].problems
        about = results[beside_it] if beside_it else Fields(file, None, {})
        task, time = (name["task"], name["time"]) if name else (file.name.split(".")[0], run)
        yield from _SampleFile(file, time, task, about).imported()


def _results_file(samples: Path, time: str) -> Path | None:
    found = sorted(samples.parent.glob(f"*_{time}.json"))
    return found[0] if found else None


@dataclass
class _DocumentScores:
    line: int | None
    """Its first line, which the rest of the trial is read from."""
    filters: set[str]
    scores: list[Row]


@dataclass
class _SampleFile:
    file: Path
    run: str
    task: str
    about: Fields
    documents: dict[str, _DocumentScores] = field(default_factory=dict)

    def imported(self) -> Iterator[ImportedItem]:
        """Issues of all lines, then a trial for each document with its issues."""
        yield from take(records(self.file), self._note)
        homes = {document.line: name for name, document in self.documents.items()}
        cell = self._cell()
        for fields in records(self.file):
            if isinstance(fields, Fields) and fields.line in homes:
                fields.problems.clear()  # the first pass reported them
                yield from take([fields], partial(self._filled, cell, homes[fields.line]))

    def _note(self, fields: Fields) -> Iterable[ImportedItem]:
        doc_id = fields.needed("doc_id", fields.identity("doc_id"))
        _requests(fields)  # refuses a line without a prompt, so that another one is used
        name = fields.text("filter") or "none"
        found = self.documents.setdefault(doc_id, _DocumentScores(fields.line, set(), []))
        if name in found.filters:
            reason = f"document {doc_id} with filter {name} came before; the first is taken"
            fields.problem("doc_id", reason)
            return []
        found.filters.add(name)
        found.scores += self._scores(fields, name)
        return []

    def _scores(self, fields: Fields, name: str) -> Iterator[Row]:
        higher = self.about.inner("higher_is_better").inner(self.task)
        version = self.about.inner("versions").data.get(self.task)
        answer = _answer(fields)
        for metric in _metrics(fields):
            value, detail = _metric(fields, metric)
            row: Row = {"scorer": f"{metric}/{name}"}
            row |= compact(value=value, answer=answer, detail=detail)
            if version is not None:
                row["scorer_version"] = str(version)
            if value in (0.0, 1.0) and higher.data.get(metric) is not False:
                row["correct"] = value == 1.0
            yield row

    def _cell(self) -> Cell:
        about = self.about
        detail = {name: about.data[name] for name in SETTINGS if name in about}
        detail |= compact(task=about.inner("configs").data.get(self.task))
        return Cell(self.run, self.task, self._model(), detail=detail)

    def _model(self) -> str:
        """The model's name; the harness names the folder after it, with __ for /."""
        arguments = self.about.inner("config").data.get("model_args")
        given = arguments if isinstance(arguments, dict) else _pairs(arguments)
        names = [self.about.data.get("model_name"), *(given.get(n) for n in MODEL_ARGUMENTS)]
        folder = self.file.resolve().parent.name
        names.append(folder.replace("__", "/") if "__" in folder else None)
        return next((name for name in names if isinstance(name, str) and name), "unknown")

    def _filled(self, cell: Cell, task_id: str, fields: Fields) -> list[ImportedItem]:
        trial = ImportedAttempt(cell, task_id, file=self.file, line=fields.line)
        likelihoods = _take_responses(fields, _requests(fields), trial)
        trial.scores = self.documents[trial.task_id].scores
        trial.outcome = {"status": "ok"} | compact(answer=_likeliest(likelihoods))
        if trial.scores:
            main = trial.scores[0]
            filtered = None if likelihoods else fields.data.get("filtered_resps")
            told = compact(requests=likelihoods or None, filtered_resps=filtered)
            told |= compact(expected=fields.data.get("target"))
            main["detail"] = json_text(parsed(main.get("detail", "{}")) | told)
            main |= compact(answer=trial.outcome.get("answer"))
            found = {"answer": main.get("answer"), "score": main.get("value")}
            trial.outcome |= compact(**found, correct=main.get("correct"))
        return [trial]


def _pairs(arguments: Any) -> dict[str, str]:
    """Older runs wrote model arguments as text: ``pretrained=org/model,dtype=auto``."""
    text = arguments if isinstance(arguments, str) else ""
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _metrics(fields: Fields) -> list[str]:
    if "metrics" not in fields:
        return [name for name in fields.data if name not in KNOWN]
    names = fields.array("metrics")
    for place, name in enumerate(names):
        if not isinstance(name, str):
            fields.problem(f"metrics.{place}", f"{shown(name)} is not a metric's name")
        elif name not in fields.data:
            fields.problem(name, "is missing, though listed in metrics")
    return [name for name in names if isinstance(name, str) and name in fields.data]


def _metric(fields: Fields, name: str) -> tuple[float | None, str | None]:
    """A metric's value, or the reference to its parts if it is computed over all documents."""
    value = fields.data[name]
    if isinstance(value, bool):
        return float(value), None
    if isinstance(value, list | dict):
        return None, detail_text(value=value)
    return fields.number(name), None


def _answer(fields: Fields) -> str | None:
    """The filter's output for the only response of a generation request."""
    requests, found = _requests(fields), fields.array("filtered_resps")
    only = found[0] if len(found) == 1 else None
    only = only[0] if isinstance(only, list) and len(only) == 1 else only
    writes = len(requests) == 1 and _settings(requests[0]) is not None
    return only if writes and isinstance(only, str) else None


def _settings(arguments: list[Any]) -> dict[str, Any] | None:
    """Settings of a generation request; None for a likelihood request."""
    given = arguments[1] if len(arguments) > 1 else None
    return given if isinstance(given, dict) else None


def _requests(fields: Fields) -> list[list[Any]]:
    """The arguments of each request, the prompt as text first."""
    value = fields.data.get("arguments")
    if isinstance(value, dict):
        value = [list(v.values()) if isinstance(v, dict) else v for v in value.values()]
    if not isinstance(value, list) or not all(isinstance(v, list) and v for v in value):
        fields.refuse("arguments", f"{shown(value)} is not a list of requests")
    return [
        [_prompt_text(fields, place, prompt), *rest] for place, (prompt, *rest) in enumerate(value)
    ]


def _prompt_text(fields: Fields, place: int, prompt: Any) -> str:
    """With a chat template the prompt is the only member of a list."""
    text = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt
    if not isinstance(text, str):
        fields.refuse(f"arguments.gen_args_{place}.arg_0", f"{shown(prompt)} is not a prompt")
    return text


def _take_responses(fields: Fields, requests: list[list[Any]], trial: ImportedAttempt) -> list[Row]:
    """Add messages and calls of every request; returns the likelihoods."""
    responses = fields.array("resps")
    if len(responses) != len(requests):
        fields.problem("resps", f"{len(responses)} for {len(requests)} requests")
    likelihoods, prompt = [], None
    for place, (arguments, given) in enumerate(zip(requests, responses, strict=False)):
        if arguments[0] != prompt:
            prompt = arguments[0]
            trial.messages += _prompt(fields, place, prompt)
        where = f"resps.{place}"
        if not isinstance(given, list):
            fields.problem(where, f"{shown(given)} is not a list of responses")
        elif (settings := _settings(arguments)) is not None:
            _take_texts(fields, where, given, settings, trial)
        elif given:
            row = _likelihood(fields, where, arguments, given[0])
            if prompt != requests[0][0]:
                row["context"] = prompt
            likelihoods.append(row)
            asked = compact(request="loglikelihood", continuation=row.get("continuation"))
            add_call(trial.calls, model=trial.cell.model, params=params(asked))
    return likelihoods


def _prompt(fields: Fields, place: int, text: str) -> list[Row]:
    """Plain text, or a conversation as JSON text (with a chat template)."""
    turns = parsed(text) if text.startswith("[{") else None
    if isinstance(turns, list):
        where = f"arguments.gen_args_{place}.arg_0"
        with suppress(RecordRefused):  # plain text that looked like a conversation
            return message_rows(Fields(fields.file, fields.line, {where: turns}), where)
    return [{"role": "user", "content": text}]


def _take_texts(
    fields: Fields, where: str, given: list[Any], settings: dict[str, Any], trial: ImportedAttempt
) -> None:
    for place, response in enumerate(given):
        if not isinstance(response, str):
            fields.problem(f"{where}.{place}", f"{shown(response)} is not a response")
            continue
        call = add_call(trial.calls, model=trial.cell.model, params=params(settings))
        said = {"role": "assistant", "content": response, "call_id": call["call_id"]}
        trial.messages.append(said)


def _likelihood(fields: Fields, where: str, arguments: list[Any], response: Any) -> Row:
    """Parse a likelihood's text: the number, and whether greedy decoding gives the same."""
    parts = response if isinstance(response, list) else [response]
    value = _float(parts[0]) if parts else None
    if value is None:
        what = shown(parts[0]) if parts else "nothing"
        fields.problem(f"{where}.0", f"{what} is not a finite log-likelihood")
    continuation = arguments[1] if len(arguments) > 1 else None
    return compact(
        continuation=continuation if isinstance(continuation, str) else None,
        loglikelihood=value,
        is_greedy=str(parts[1]) == "True" if len(parts) > 1 else None,
    )


def _float(value: Any) -> float | None:
    try:
        return NUMBER.validate(float(value) if isinstance(value, str) else value)
    except ValueError:  # pydantic's error is one, too
        return None


def _likeliest(likelihoods: list[Row]) -> str | None:
    """The likeliest of several continuations; those of other contexts are for normalisation."""
    choices = [row for row in likelihoods if "context" not in row and "continuation" in row]
    known = [row for row in choices if "loglikelihood" in row]
    if len(choices) < 2 or len(known) < len(choices):
        return None
    best: str = max(known, key=lambda row: row["loglikelihood"])["continuation"]
    return best.strip()
