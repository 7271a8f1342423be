"""A training's plan: its facts, and of its base what is trained and the memory that this takes."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutti.tasks.gpus import Gpu
from tutti.tasks.serving import Model, WeightsError, weights_here
from tutti.tasks.serving.weights import (
    hub_weights_here,
    is_hub_name,
    read_weights,
    require_trainable,
)
from tutti.tasks.training.job import TrainJob
from tutti.tasks.training.model_size import (
    KNOWN,
    ModelSize,
    TrainedModel,
    memory_parts,
    size_of_checkpoint,
)
from tutti.tasks.training.objectives import PAIRS, reads_reference
from tutti.tasks.training.policy.job import PolicyJob


@dataclass(frozen=True)
class PlanFact:
    """One line of a plan."""

    part: str
    """Of the plan: base, memory, rollouts."""
    name: str
    value: Any
    """As JSON has it; None where it is not known."""
    text: str
    """As people read it."""


@dataclass(frozen=True)
class MissingThing:
    """What this machine lacks for the job."""

    what: str
    todo: str
    """What to do about it."""


@dataclass
class JobPlan:
    """What a job would do: each of its planners adds facts, and what is missing."""

    name: str
    kind: str
    """sft or policy."""
    facts: list[PlanFact] = field(default_factory=list)
    missing: list[MissingThing] = field(default_factory=list)

    def fact(self, part: str, name: str, value: Any, text: str | None = None) -> None:
        """Add a fact; without a text, people read its value."""
        self.facts.append(PlanFact(part, name, value, _shown(value) if text is None else text))

    def settings(self, part: str, settings: Iterable[tuple[str, Any]]) -> None:
        """Add a fact of each setting."""
        for name, value in settings:
            self.fact(part, name, value)

    def lacks(self, what: str, todo: str) -> None:
        """Add a missing thing, once."""
        if (thing := MissingThing(what, todo)) not in self.missing:
            self.missing.append(thing)

    @property
    def content(self) -> dict[str, Any]:
        """As `--json` prints it."""
        parts: dict[str, dict[str, Any]] = {}
        for fact in self.facts:
            parts.setdefault(fact.part, {})[fact.name] = fact.value
        missing = [{"what": each.what, "todo": each.todo} for each in self.missing]
        told = {"job": self.name, "kind": self.kind, "could_start": not missing}
        return {**told, **parts, "missing": missing}


def size_text(size_bytes: float) -> str:
    """Bytes as people read them, in powers of 1,000."""
    if size_bytes >= 1e9:
        return f"{size_bytes / 1e9:,.1f} GB"
    return f"{size_bytes / 1e6:,.1f} MB"


def span_text(least: int, most: int) -> str:
    """One number, or the range from the least to the most."""
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_shown(each) for each in value)
    return "none" if value is None else str(value)


AnyJob = TrainJob | PolicyJob


@dataclass
class PlannedBase:
    """The base of a job, as far as it is here."""

    name: str
    entry: Model | None
    """None: a folder, or an entry that the registry does not have."""
    folder: Path | None
    size: ModelSize | None
    hub_id: str | None = None
    """Where its weights are from; its folder is then that of the cache, or None."""

    @property
    def is_here(self) -> bool:
        """Whether its weights can be trained."""
        return self.folder is not None and _fault(self.folder) is None


def planned_base(
    job: AnyJob, entries: Mapping[str, Model], registry: Path, plan: JobPlan
) -> PlannedBase:
    """The base of a job; the plan gets what of it is here, and what is missing."""
    named = Path(job.base)
    entry = None if isinstance(job, TrainJob) and named.is_dir() else entries.get(job.base)
    hub_id = None if entry is None else entry.hub_id
    folder = None if entry is None else weights_here(entry)
    if isinstance(job, TrainJob) and named.is_dir():
        folder = named
    elif isinstance(job, TrainJob) and is_hub_name(job.base):
        hub_id, folder = job.base, hub_weights_here(job.base)
    # Until it is fetched, its size is known by its name.
    sized = folder or (Path(hub_id.partition("@")[0]) if hub_id else None)
    size = None if sized is None else size_of_checkpoint(sized)
    base = PlannedBase(job.base, entry, folder, size, hub_id)
    kind = "a folder" if folder == named else f"an entry of {registry}"
    kind = "a model of the Hub" if entry is None and hub_id is not None else kind
    shown = "no such entry" if entry is None and folder is None and hub_id is None else kind
    plan.fact("base", "name", job.base, f"{job.base}: {shown}")
    if folder is not None:
        plan.fact("base", "folder", str(folder))
    if hub_id is not None:
        plan.fact("base", "hub", hub_id)
    plan.fact("base", "weights_here", base.is_here, "yes" if base.is_here else "no")
    if size is not None and size.parameters is not None:
        text = f"{size.parameters:,}, by {size.source}"
        plan.fact("base", "parameters", size.parameters, text)
    _check_weights(base, entries, registry, plan)
    return base


def _check_weights(
    base: PlannedBase, entries: Mapping[str, Model], registry: Path, plan: JobPlan
) -> None:
    if base.folder is None and base.hub_id is not None:
        _not_fetched(base.hub_id, plan)
    elif base.folder is None and base.entry is not None:
        todo = "only weights can be trained: name an entry with a `checkpoint`"
        plan.lacks(f"{base.name} has no checkpoint in {registry}", todo)
    elif base.folder is None:
        known = ", ".join(sorted(entries)) or "none"
        todo = f"add it, or name another registry with --models; known: {known}"
        plan.lacks(f"no entry {base.name!r} in {registry}", todo)
    elif not base.is_here and base.folder.is_dir():
        what, _, todo = (_fault(base.folder) or "").rpartition("; ")
        plan.lacks(what or todo, todo)
    elif not base.is_here:
        todo = f"fetch the checkpoint there, or change `checkpoint` of {base.name} in {registry}"
        plan.lacks(f"no checkpoint folder {base.folder}", todo)


def check_served(name: str, entry: Model, plan: JobPlan) -> None:
    """Add what is missing of the weights of an entry that is served beside the base."""
    folder = weights_here(entry)
    if folder is None:
        return _not_fetched(entry.hub_id or name, plan)
    try:
        read_weights(folder)
    except WeightsError as error:
        what, _, todo = str(error).rpartition("; ")
        plan.lacks(f"no checkpoint of {name}: {what or todo}", todo)


def _not_fetched(hub_id: str, plan: JobPlan) -> None:
    name, _, revision = hub_id.partition("@")
    todo = f"the job fetches it when it starts, or now: `hf download {name} --revision {revision}`"
    plan.lacks(f"the Hub's cache has not all of {hub_id}", todo)


def _fault(folder: Path) -> str | None:
    """Why the weights in a folder cannot be trained."""
    try:
        require_trainable(folder)
    except WeightsError as error:
        return str(error)
    return None


def plan_memory(job: AnyJob, base: PlannedBase, plan: JobPlan) -> int:
    """Add what is trained, and the memory of a step with its arithmetic; returns that in bytes, 0
    where it is not known."""
    size = base.size
    if size is None or size.parameters is None:
        known = ", ".join(KNOWN)
        text = f"unknown: no config.json that tutti can read, and the folder is none of {known}"
        plan.fact("trained", "parameters", None, text)
        return 0
    adapter, lora = None, job.lora
    if lora is not None:
        if unknown := sorted(set(lora.targets) - size.matrices.keys()):
            todo = f"lora.targets: some of {', '.join(size.matrices)}"
            plan.lacks(f"no matrix {unknown[0]!r} in {base.name}", todo)
            return 0
        adapter = size.adapter_parameters(lora)
    count = size.parameters if adapter is None else adapter
    what = "all weights" if lora is None else f"an adapter of rank {lora.rank}"
    plan.fact("trained", "what", "weights" if lora is None else "adapter", what)
    plan.fact("trained", "parameters", count, f"{count:,}")
    model = TrainedModel(
        size,
        size.parameters,
        adapter,
        reads_reference(job.objective, job.objective_settings),
        longest_micro_batch(job, base.entry),
        job.dtype != "float32",
        job.gradient_checkpointing,
    )
    parts = memory_parts(model)
    for each in parts:
        value = {"bytes": each.size_bytes, "arithmetic": each.arithmetic}
        text = f"{size_text(each.size_bytes):>9} = {each.arithmetic}"
        plan.fact("memory", each.what, value, text)
    total = sum(each.size_bytes for each in parts)
    plan.fact("memory", "total", {"bytes": total}, f"{size_text(total):>9}")
    return total


def longest_micro_batch(job: AnyJob, entry: Model | None) -> int:
    """Tokens: a sequence, or a pair, that is longer than a micro-batch has one of its own."""
    if isinstance(job, PolicyJob):
        return max(job.batch_tokens, 0 if entry is None else entry.context_tokens)
    unit = 2 if job.objective in PAIRS else 1
    return max(job.batch.tokens, unit * (job.batch.max_tokens or 0))


def check_memory(total: int, card: Gpu | None, plan: JobPlan) -> None:
    """Add where the trainer needs more memory than its card has, or this machine without one."""
    if card is not None and card.memory_mb is None:
        return
    if card is None:
        there, where = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "this machine"
    else:
        there, where = (card.memory_mb or 0) * 2**20, f"gpu {card.index}"
    if total > there:
        needed = f"about {size_text(total)} for the trainer"
        todo = "train an adapter (`lora`), shorten micro-batches, or use another "
        todo += "machine or backend (docs/backends.md)"
        plan.lacks(f"memory: {needed}, and {where} has {size_text(there)}", todo)
