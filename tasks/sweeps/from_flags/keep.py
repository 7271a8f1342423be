"""Creation of a sweep's suite from its settings, as files with which it can be repeated.

In: a benchmark, a model (an entry of the registry, or the URL of an endpoint), and settings. Out:
``suites/NAME.yaml`` under TUTTI_HOME and, for an endpoint, ``models/NAME.yaml``. The same command
writes the same files, so the sweep is resumed.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import urlsplit

import yaml

from tutti.errors import UsageError
from tutti.storage import current_home, replacing
from tutti.tasks.platform import default_registry
from tutti.tasks.serving.registry import Model, pick_model, read_registry
from tutti.tasks.serving.served import CONTEXT_TOKENS, EndpointRequest, discover, is_url, short_name
from tutti.tasks.sweeps.spec import Suite


class RunSettings(TypedDict, total=False):
    """Settings of a run; None means the default. A setting without a text is a field of `Suite`."""

    registry: Path | None
    """The model registry; default: ``models.yaml`` in this folder, or else tutti's own."""
    name: str | None
    """The sweep's name; default: made of the benchmark and the model."""
    served_name: str | None
    """Of an endpoint: the model's name there; default: the only one that it lists."""
    api_key_env: str | None
    """Of an endpoint: the environment variable that holds its key."""
    context_tokens: int | None
    """Of an endpoint: prompt and answer together; default: what it reports, or 8,192."""
    concurrency: Sequence[int] | None
    """Sessions at once, one cell for each; default: 8."""
    policies: Sequence[str] | None
    """The gateway's scheduling policies; default: ``passthrough``."""
    limit: int | None
    source: Path | str | None
    """The benchmark's data: a file or folder; default: download from the hub."""
    ids: Sequence[str] | None
    where: str | None
    split: str | None
    rule: str | None
    scorer: str | None
    """Of a JSONL file: how answers are compared: exact, numeric, math, choice, judge, or none."""
    question_field: str | None
    """Of a JSONL file; default: question, prompt or problem."""
    answer_field: str | None
    """Of a JSONL file; default: answer, target or expected_answer."""
    judge: str | None
    user: str | None
    solo: bool | None
    agent: str | None
    temperature: float | None
    max_tokens: int | None
    """Of one reply; default: half of the context, at most 16,384."""
    reasoning: str | None
    max_turns: int | None
    repeats: int | None
    trials: int | None
    first_trial: int | None
    prompt: str | None
    python: str | None
    mcp: str | None
    search_index: str | None
    parallel: int | None
    """Solutions of each problem at once, 2 to 64, of which one answer is made."""
    combine: str | None
    """With `parallel`: ``select`` one of the solutions (default), or ``synthesis`` of a new one."""
    working_s: float | None
    budget_minutes: float | None
    """Stop starting samples after N minutes; run again to resume."""
    budget_usd: float | None
    """Stop starting samples after N USD are spent; run again to resume."""
    unsafe_sandbox: bool | None
    """Run model-written programs unsandboxed if this machine has no sandbox."""


CONCURRENCY, POLICIES = (8,), ("passthrough",)
FIELDS = (
    *("limit", "ids", "where", "judge", "user", "agent", "temperature", "max_turns", "reasoning"),
    *("repeats", "trials", "first_trial", "solo", "unsafe_sandbox", "prompt", "split", "rule"),
    *("python", "mcp", "search_index", "working_s"),
)
"""Settings that are fields of a suite by the same name."""
READING = ("scorer", "question_field", "answer_field")
"""Settings that say how a file is read: without them there is no benchmark."""
OF_ENDPOINTS = ("served_name", "api_key_env", "context_tokens")
"""Settings of a model that is named by its URL; an entry of the registry has its own."""
ALWAYS_WRITTEN = ("name", "benchmark", "model", "concurrency", "policies")


@dataclass(frozen=True)
class KeptSweep:
    """A suite, the registry of its models, and the paths of both."""

    suite: Suite
    path: Path
    models: Path
    assumed_context: bool = False
    """Whether the endpoint did not report its context length."""

    @property
    def command(self) -> str:
        return shlex.join(["tutti", "sweep", "run", str(self.path), "--models", str(self.models)])

    @property
    def words(self) -> str:
        """The files' locations and how to repeat the sweep, in one line."""
        line = f"suite kept in {self.path}; `{self.command}` repeats it"
        if not self.assumed_context:
            return line
        assumed = f"{CONTEXT_TOKENS} tokens are assumed, set --context-tokens"
        return f"{line}; the endpoint reports no context length: {assumed}"


@dataclass(frozen=True)
class _ChosenModel:
    entry_name: str
    label: str
    """Its part of the sweep's name: an endpoint's host is in it."""
    model: Model
    written: dict[str, Any] | None = None
    """The entry of an endpoint."""
    is_context_assumed: bool = False


async def keep_sweep(benchmark: str, model: str, settings: RunSettings) -> KeptSweep:
    """Write the files of a sweep.

    Raises EndpointFailed, RegistryError, UsageError, BenchmarkError or ValidationError.
    """
    registry = (settings.get("registry") or default_registry()).absolute()
    has_others = settings.get("judge") or settings.get("user") or settings.get("agent")
    others: dict[str, Any] = {}
    if is_url(model) and has_others:
        models = read_registry(registry).items()
        others = {name: each.model_dump(mode="json", exclude_unset=True) for name, each in models}
    chosen = await _chosen(model, registry, settings)
    while chosen.entry_name in others:  # a judge may be the registry's entry by this name
        chosen = replace(chosen, entry_name=f"{chosen.entry_name}-measured")
    name = settings.get("name") or short_name(f"{benchmark}-{chosen.label}")
    suite = _suite(name, benchmark, chosen, settings)
    home = current_home().root
    path = home / "suites" / f"{name}.yaml"
    if chosen.written is not None:
        registry = home / "models" / f"{name}.yaml"
        _write(registry, f"Of {path}.", {"models": others | {chosen.entry_name: chosen.written}})
    stored = KeptSweep(suite, path, registry, chosen.is_context_assumed)
    every = suite.model_dump(mode="json")
    content = {field: every[field] for field in ALWAYS_WRITTEN}
    content |= suite.model_dump(mode="json", exclude_defaults=True)
    _write(path, f"Written by `tutti run`. To repeat: {stored.command}", content)
    return stored


async def entry_name(model: str, settings: RunSettings) -> str:
    """The model's name in suites: the registry's entry, or the name that an endpoint serves.

    Raises EndpointFailed, RegistryError or UsageError.
    """
    registry = (settings.get("registry") or default_registry()).absolute()
    return (await _chosen(model, registry, settings)).entry_name


async def _chosen(model: str, registry: Path, settings: RunSettings) -> _ChosenModel:
    if not is_url(model):
        for name in OF_ENDPOINTS:
            if settings.get(name) is not None:
                flag = name.replace("_", "-")
                raise UsageError(
                    f"--{flag}: for an endpoint's URL; of the entry {model} it stands in {registry}"
                )
        return _ChosenModel(model, model, pick_model(registry, model))
    key, context = settings.get("api_key_env"), settings.get("context_tokens")
    answer = await discover(EndpointRequest(model, settings.get("served_name"), key, context))
    entry, parts = answer.fields, urlsplit(model)
    served = short_name(str(entry["served_name"]).rpartition("/")[2]) or "model"
    label = f"{served}-{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
    assumed = answer.is_context_assumed
    return _ChosenModel(served, label, Model.model_validate(entry), entry, assumed)


def _suite(name: str, benchmark: str, chosen: _ChosenModel, settings: RunSettings) -> Suite:
    given: dict[str, Any] = dict(settings)
    content = {
        "name": name,
        "benchmark": benchmark,
        "model": chosen.entry_name,
        "concurrency": given.get("concurrency") or CONCURRENCY,
        "policies": given.get("policies") or POLICIES,
        "data": {field: given[field] for field in READING if given.get(field) is not None},
    }
    fields = {field: given.get(field) for field in (*FIELDS, "max_tokens")}
    fields["budget"] = {"minutes": given.get("budget_minutes"), "usd": given.get("budget_usd")}
    fields["parallel"] = _parallel(settings)
    if source := given.get("source"):
        fields["source"] = Path(source).resolve()  # the stored suite is run from any folder
    # A file of the user's own is found from any folder, as the stored suite is.
    suite = Suite.model_validate(content, context={"folder": Path.cwd()})
    return suite.with_fields(fields).with_reply_tokens(chosen.model.context_tokens)


def _parallel(settings: RunSettings) -> dict[str, Any] | None:
    """Return `harness.parallel`, if requested. Raises UsageError."""
    solutions, combine = settings.get("parallel"), settings.get("combine")
    if solutions is None:
        if combine is not None:
            raise UsageError(f"--combine {combine}: of several solutions; add --parallel 8, say")
        return None
    return {"solutions": solutions} | ({"combine": combine} if combine is not None else {})


def _write(path: Path, comment: str, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None)
    with replacing(path) as unfinished:
        unfinished.write_text(f"# {comment}\n{text}", "utf-8")
