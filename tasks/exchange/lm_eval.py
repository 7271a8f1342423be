"""Import of samples that lm-evaluation-harness logged.

In: a ``samples_<task>_<time>.jsonl`` (``--log_samples``) or a folder of them, and the
``results_<time>.json`` beside it. Out: a trial for each document; the time is the run. The file has
a line per document and filter, so it is read twice: for the scores, then for the documents. A score
is named metric/filter; the first one sets score and correct. Each response is a call. The
likelihoods of a choice are in the first score's detail, and the answer is the likeliest one.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tutti.tasks.exchange.base.chat import add_call, message_rows, params
from tutti.tasks.exchange.base.fields import (
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
from tutti.tasks.exchange.base.imported import (
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
        task, time = (name["task"], name["time"]) if name else (file.name.split(".")[0], run)
        beside = sorted(file.parent.glob(f"*_{time}.json"))[:1] if name else []
        for other in beside:
            if other not in results:
                results[other] = readable(other)
                yield from results[other].problems
        about = results[beside[0]] if beside else Fields(file, None, {})
        yield from _SampleFile(file, time, task, about).imported()


class _Request(NamedTuple):
    prompt: str
    continuation: str | None
    """Of a likelihood request."""
    settings: dict[str, Any] | None
    """Of a generation request; None for a likelihood request."""


@dataclass
class _DocumentScores:
    line: int | None
    """Its first line, which the rest of the trial is read from."""
    filters: set[str] = field(default_factory=set)
    scores: list[Row] = field(default_factory=list)


@dataclass
class _SampleFile:
    file: Path
    run: str
    task: str
    about: Fields
    documents: dict[str, _DocumentScores] = field(default_factory=dict)

    def imported(self) -> Iterator[ImportedItem]:
        """Issues of all lines, then a trial for each document with its issues."""
        yield from take(records(self.file), self._add_scores)
        homes = {document.line: name for name, document in self.documents.items()}
        detail = self.about.picked(SETTINGS)
        detail |= compact(task=self.about.inner("configs").data.get(self.task))
        cell = Cell(self.run, self.task, self._model(), detail=detail)
        for fields in records(self.file):
            if isinstance(fields, Fields) and fields.line in homes:
                fields.problems.clear()  # the first pass reported them
                yield from take([fields], partial(self._trial, cell, homes[fields.line]))

    def _add_scores(self, fields: Fields) -> Iterable[ImportedItem]:
        doc_id = fields.needed("doc_id", fields.identity("doc_id"))
        requests = _requests(fields)  # refuses a line without a prompt, so that another is used
        name = fields.text("filter") or "none"
        document = self.documents.setdefault(doc_id, _DocumentScores(fields.line))
        if name in document.filters:
            reason = f"document {doc_id} with filter {name} came before; the first is taken"
            fields.problem("doc_id", reason)
            return []
        document.filters.add(name)
        higher = self.about.inner("higher_is_better").inner(self.task)
        version = self.about.inner("versions").data.get(self.task)
        answer = _answer(fields, requests)
        for metric in _metrics(fields):
            given, detail = fields.data[metric], None
            if isinstance(given, list | dict):
                value, detail = None, detail_text(value=given)
            else:
                value = float(given) if isinstance(given, bool) else fields.number(metric)
            is_graded = value in (0.0, 1.0) and higher.data.get(metric) is not False
            document.scores.append(
                compact(
                    scorer=f"{metric}/{name}",
                    value=value,
                    answer=answer,
                    detail=detail,
                    scorer_version=None if version is None else str(version),
                    correct=value == 1.0 if is_graded else None,
                )
            )
        return []

    def _model(self) -> str:
        """The model's name; the harness names the folder after it, with __ for /."""
        given = self.about.get("config.model_args")
        if isinstance(given, str):  # of older runs: pretrained=org/model,dtype=auto
            given = dict(pair.split("=", 1) for pair in given.split(",") if "=" in pair)
        given = given if isinstance(given, dict) else {}
        folder = self.file.resolve().parent.name
        names = [self.about.data.get("model_name"), *(given.get(n) for n in MODEL_ARGUMENTS)]
        names += [folder.replace("__", "/")] if "__" in folder else []
        return next((name for name in names if isinstance(name, str) and name), "unknown")

    def _trial(self, cell: Cell, task_id: str, fields: Fields) -> list[ImportedItem]:
        trial = ImportedAttempt(cell, task_id, file=self.file, line=fields.line)
        likelihoods = _take_responses(fields, _requests(fields), trial)
        trial.scores = self.documents[task_id].scores
        trial.outcome = {"status": "ok"} | compact(answer=_likeliest(likelihoods))
        if trial.scores:
            main = trial.scores[0]
            filtered = None if likelihoods else fields.get("filtered_resps")
            more = compact(requests=likelihoods or None, filtered_resps=filtered)
            more |= compact(expected=fields.get("target"))
            main["detail"] = json_text(parsed(main.get("detail", "{}")) | more)
            main |= compact(answer=trial.outcome.get("answer"))
            trial.outcome |= compact(
                answer=main.get("answer"), score=main.get("value"), correct=main.get("correct")
            )
        return [trial]


def _metrics(fields: Fields) -> list[str]:
    if "metrics" not in fields:
        return [name for name in fields.data if name not in KNOWN]
    found = []
    for place, name in enumerate(fields.array("metrics")):
        if isinstance(name, str) and name in fields.data:
            found.append(name)
        else:
            fields.problem(f"metrics.{place}", f"{shown(name)} is not a metric of this line")
    return found


def _answer(fields: Fields, requests: list[_Request]) -> str | None:
    """The filter's output for the only response of a generation request."""
    outputs = fields.array("filtered_resps")
    only = outputs[0] if len(outputs) == 1 else None
    only = only[0] if isinstance(only, list) and len(only) == 1 else only
    is_generation = len(requests) == 1 and requests[0].settings is not None
    return only if is_generation and isinstance(only, str) else None


def _requests(fields: Fields) -> list[_Request]:
    """Parse the requests. Raises RecordRefused for a request without a prompt."""
    value = fields.data.get("arguments")
    if isinstance(value, dict):
        value = [list(v.values()) if isinstance(v, dict) else v for v in value.values()]
    if not isinstance(value, list) or not all(isinstance(v, list) and v for v in value):
        fields.refuse("arguments", f"{shown(value)} is not a list of requests")
    requests = []
    for place, (prompt, *rest) in enumerate(value):
        # With a chat template the prompt is the only member of a list.
        text = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt
        if not isinstance(text, str):
            fields.refuse(f"arguments.gen_args_{place}.arg_0", f"{shown(prompt)} is not a prompt")
        more = rest[0] if rest else None
        continuation = more if isinstance(more, str) else None
        requests.append(_Request(text, continuation, more if isinstance(more, dict) else None))
    return requests


def _take_responses(fields: Fields, requests: list[_Request], trial: ImportedAttempt) -> list[Row]:
    """Add messages and calls of every request; return the likelihoods."""
    responses = fields.array("resps")
    if len(responses) != len(requests):
        fields.problem("resps", f"{len(responses)} for {len(requests)} requests")
    likelihoods, prompt = [], None
    for place, (request, given) in enumerate(zip(requests, responses, strict=False)):
        if request.prompt != prompt:
            prompt = request.prompt
            trial.messages += _prompt(fields, place, prompt)
        where = f"resps.{place}"
        if not isinstance(given, list):
            fields.problem(where, f"{shown(given)} is not a list of responses")
        elif request.settings is not None:
            _take_texts(fields, where, given, request, trial)
        elif given:
            row = _likelihood(fields, where, given[0])
            row |= compact(continuation=request.continuation)
            row |= {} if prompt == requests[0].prompt else {"context": prompt}
            likelihoods.append(row)
            sent = compact(request="loglikelihood", continuation=request.continuation)
            add_call(trial.calls, model=trial.cell.model, params=params(sent))
    return likelihoods


def _take_texts(
    fields: Fields, where: str, given: list[Any], request: _Request, trial: ImportedAttempt
) -> None:
    for number, response in enumerate(given):
        if not isinstance(response, str):
            fields.problem(f"{where}.{number}", f"{shown(response)} is not a response")
            continue
        call = add_call(trial.calls, model=trial.cell.model, params=params(request.settings))
        reply = {"role": "assistant", "content": response, "call_id": call["call_id"]}
        trial.messages.append(reply)


def _prompt(fields: Fields, place: int, text: str) -> list[Row]:
    """Parse a prompt: plain text, or a conversation as JSON text (with a chat template)."""
    turns = parsed(text) if text.startswith("[{") else None
    if isinstance(turns, list):
        with suppress(RecordRefused):  # plain text that looked like a conversation
            name = f"arguments.gen_args_{place}.arg_0"
            return message_rows(Fields(fields.file, fields.line, {name: turns}), name)
    return [{"role": "user", "content": text}]


def _likelihood(fields: Fields, where: str, response: Any) -> Row:
    """Parse a likelihood's text: the number, and whether greedy decoding gives the same."""
    parts = response if isinstance(response, list) else [response]
    value = parts[0] if parts else None
    try:
        number = NUMBER.validate(float(value) if isinstance(value, str) else value)
    except ValueError:  # pydantic's error is one, too
        number = None
        fields.problem(f"{where}.0", f"{shown(value)} is not a finite log-likelihood")
    greedy = str(parts[1]) == "True" if len(parts) > 1 else None
    return compact(loglikelihood=number, is_greedy=greedy)


def _likeliest(likelihoods: list[Row]) -> str | None:
    """The likeliest of several continuations; those of other contexts are for normalisation."""
    choices = [row for row in likelihoods if "context" not in row and "continuation" in row]
    known = [row for row in choices if "loglikelihood" in row]
    if len(choices) < 2 or len(known) < len(choices):
        return None
    best: str = max(known, key=lambda row: row["loglikelihood"])["continuation"]
    return best.strip()
