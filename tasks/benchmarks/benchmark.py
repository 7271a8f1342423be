"""The definition of a benchmark: where its data are, how rows become items, its prompt, its scorer.

In: a `Source`. Out: `Item`s. A benchmark is one file in this package and one line in `BENCHMARKS`.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.errors import BadRow, BenchmarkError, SourceMissing
from tutti.tasks.benchmarks.item import ExcludedRow, Item
from tutti.tasks.benchmarks.source import Files, Hub, Source
from tutti.tasks.benchmarks.world import MakeWorld
from tutti.tasks.scoring import Attempted

Read = Callable[[Files], Iterator[Item | ExcludedRow]]
Gold = Callable[[Item], str | None]

log = logging.getLogger(__name__)


def answer_of(item: Item) -> str:
    """The gold answer where the target has it as text, which is the usual case."""
    answer = item.target["answer"]
    assert isinstance(answer, str), f"{item.id}: the target's answer is {answer!r}, not text"
    return answer


def no_gold(item: Item) -> None:
    """For benchmarks that come without an answer that must score 1.0."""
    return None


@dataclass(frozen=True)
class Benchmark:
    """One benchmark."""

    name: str
    """As users write it: ``gsm8k``."""
    read: Read
    """Makes items of files; yields `ExcludedRow` for a row that it leaves out by rule."""
    splits: Mapping[str, Sequence[str]]
    """For each split the patterns of its files below a folder; the first that matches is read. The
    first split is the one that is read unless another is asked for."""
    scorer: str
    """The scorer's name."""
    prompt: str
    """The prompt's name: a file ``prompts/<prompt>.yaml``."""
    licence: str
    """The data's licence and whom to cite, a line."""
    also: Sequence[str] = ()
    """Patterns of further files that `read` opens beside those of the split."""
    hub: Hub | None = None
    """None where the publisher does not offer the data there."""
    interactive: bool = False
    """An attempt needs more than a model: a simulated user, or tools that carry calls out. Without
    a `world` it is made by somebody's harness."""
    world: MakeWorld | None = None
    """What surrounds an attempt of an interactive benchmark, for each attempt anew."""
    needs_user: bool = False
    """`world` wants a model that plays the user, or whoever else takes part."""
    own: Path | None = None
    """The folder of its data, where tutti brings them."""
    gold: Gold = answer_of
    """The answer text that must score 1.0; None where the benchmark comes without one."""

    @property
    def split(self) -> str:
        """The split that is read unless another is asked for."""
        return next(iter(self.splits))

    def load(self, source: Source, left_out: list[ExcludedRow] | None = None) -> Iterator[Item]:
        """Every item of `source`, in the files' order.

        What the benchmark leaves out by rule is added to `left_out`, and its count is logged.
        Raises SourceMissing, BadRow (also for an id that is a duplicate id).
        """
        dropped: list[ExcludedRow] = [] if left_out is None else left_out
        before = len(dropped)
        files = self.files(source)
        seen: set[str] = set()
        for made in self.read(files):
            if isinstance(made, ExcludedRow):
                dropped.append(made)
                continue
            if made.id in seen:
                raise BadRow(files.paths[0], None, "id", f"{made.id} is a duplicate id")
            seen.add(made.id)
            yield made
        for reason, count in Counter(one.reason for one in dropped[before:]).items():
            log.warning("%s: %d left out: %s", self.name, count, reason)

    def files(self, source: Source) -> Files:
        """The files of `source`'s split. Raises SourceMissing, also for an unknown split."""
        split = source.split or self.split
        if split not in self.splits:
            known = ", ".join(self.splits)
            raise SourceMissing(f"{self.name} has no split {split!r}; it has {known}")
        if source.path is None and self.own is not None:
            source = replace(source, path=self.own)
        return source.files(self.name, self.hub, self.splits[split], self.also)

    def gold_attempt(self, item: Item) -> Attempted:
        """The attempt that must score 1.0. Raises BenchmarkError where the benchmark comes without
        a gold answer."""
        messages, answer = self.gold_messages(item), self.gold(item)
        return Attempted(answer, answer or "", messages, item.target.get("state"))

    def gold_messages(self, item: Item) -> list[dict[str, Any]]:
        """What an attempt must add to score 1.0: for a target of tool calls one assistant message
        that makes them, else one that says the gold answer.

        The messages that the item gives are not among them: their calls are not the attempt's.
        Raises BenchmarkError where the benchmark comes without a gold answer.
        """
        answer = self.gold(item)
        if answer is None:
            raise BenchmarkError(f"{self.name} comes without a gold answer ({item.id})")
        if "calls" not in item.target:
            return [{"role": "assistant", "content": answer}]
        calls = gold_calls(item)
        if not calls:
            return [{"role": "assistant", "content": item.target.get("response", "")}]
        return [{"role": "assistant", "content": None, "tool_calls": calls}]


def gold_calls(item: Item) -> list[dict[str, Any]]:
    """The target's calls as OpenAI writes tool calls; of several accepted values the first."""
    return [
        tool_call(f"gold-{place}", call["name"], _arguments(call))
        for place, call in enumerate(item.target["calls"])
    ]


def calls_of(item: Item) -> str:
    """The target's calls as JSON text: the gold answer of a tool-call benchmark."""
    calls = item.target["calls"]
    return json.dumps([{"name": call["name"], "arguments": _arguments(call)} for call in calls])


def tool_call(call_id: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """One tool call as OpenAI writes it: the arguments are JSON text."""
    function = {"name": name, "arguments": json.dumps(dict(arguments), ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


def tool(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as OpenAI describes it; `parameters` is a JSON schema of an object."""
    function = {"name": name, "description": description, "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    if "accepted" not in call:
        return dict(call["arguments"])
    accepted: Mapping[str, Sequence[Any]] = call["accepted"]
    return {name: values[0] for name, values in accepted.items() if name not in call["optional"]}
