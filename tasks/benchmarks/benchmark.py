"""The definition of a benchmark: its data, the conversion of rows to tasks, its prompt, its scorer.

In: a `Source`. Out: `Task`s. A benchmark is a YAML file in ``sets/`` (`definition`).
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tutti.tasks.benchmarks.errors import BadRow, BenchmarkError, SourceMissing
from tutti.tasks.benchmarks.source import Files, Hub, Source
from tutti.tasks.benchmarks.world import MakeWorld
from tutti.tasks.scoring import GRADED, SCORERS, UNSCORED, WHOLE, Scorer, Submission
from tutti.tasks.task_sets import ExcludedRow, Task

Read = Callable[[Files], Iterator[Task | ExcludedRow]]
Gold = Callable[[Task], str | None]

PUBLISHED = "published"
"""The default rule of a benchmark that has several: its publisher's."""

PROMPTS = {"math": "math", "choice": "choice", "numeric": "number", "judge": "short_answer"}

log = logging.getLogger(__name__)


def prompt_for(scorer: str) -> str:
    """Return a prompt for answers in the form that the scorer reads."""
    return PROMPTS.get(scorer, "plain")


def gold_of(task: Task) -> str | None:
    """The target's answer, its calls or its response, whichever it has; None if it has none."""
    answer = task.target.get("answer")
    if answer is None and "calls" in task.target:
        return calls_of(task)
    answer = task.target.get("response") if answer is None else answer
    assert answer is None or isinstance(answer, str), f"{task.key}: {answer!r} is not text"
    return answer


def no_gold(task: Task) -> None:
    """Return None: a benchmark of files is not checked for an answer that must score 1.0."""
    return None


Measure = Literal["accuracy", "mean score"]
Metric = Literal["attempted", "calibration", "plans"]


@dataclass(frozen=True)
class Headline:
    """A benchmark's headline measure, and the metrics reported beside it. It is stored with the
    benchmark's task set, from which the view `headlines` and the reports read it."""

    measure: Measure
    """accuracy: the share of right attempts. mean score: the mean over tasks of a task's mean
    score, for answers that can be right in part."""
    parts: tuple[str, ...] = ()
    """Names of criteria in the scores' details (`rubric`) that are reported each by itself, in
    their own ranges, such as ``goal``."""

    metrics: tuple[Metric, ...] = ()
    """Further figures. attempted: SimpleQA's F1, the share right of those attempted, the share not
    attempted. calibration: HLE's two calibration errors, of scores with a confidence. plans: m&m's
    measures of plans."""

    def detail(self) -> dict[str, Any]:
        """Return the headline for the task set's artifact."""
        found: dict[str, Any] = {"measure": self.measure}
        found |= {"parts": list(self.parts)} if self.parts else {}
        return found | ({"metrics": list(self.metrics)} if self.metrics else {})


SHARE_RIGHT = Headline("accuracy")
"""For benchmarks whose scorer gives a degree, and whose published figure is the share of answers
that are right in full."""
MEAN_SCORE = Headline("mean score")


@dataclass(frozen=True)
class Benchmark:
    """One benchmark."""

    name: str
    """As users write it: ``gsm8k``."""
    read: Read
    """Makes tasks of files; yields `ExcludedRow` for a row that it excludes by rule."""
    splits: Mapping[str, Sequence[str]]
    """Per split the patterns of its files below a folder; the first that matches is read. The first
    split is the default."""
    scorer: str
    """The scorer's name."""
    prompt: str
    """The prompt's name: a file of ``prompts/`` or a folder there."""
    licence: str
    """The data's licence and citation, on one line."""
    also: Sequence[str] = ()
    """Patterns of further files that `read` opens."""
    hub: Hub | None = None
    """None if the publisher does not offer the data there."""
    interactive: bool = False
    """Whether an attempt needs more than a model: a simulated user, or working tools. Without a
    `world` it needs an external harness, or tutti's own (`command`)."""
    world: MakeWorld | None = None
    """Makes the environment of each attempt of an interactive benchmark."""
    has_strategies: bool = False
    """Whether an agent with an actor can name strategies in its world (`act` of agent files)."""
    has_toolkit: bool = False
    """Whether `world` runs a domain's toolkit, which a model may have written, in the sandbox."""
    needs_user: bool = False
    """Whether `world` or `command` needs a model for the user or another participant."""
    own: Path | None = None
    """The folder of its data, if tutti includes them."""
    gold: Gold = gold_of
    """The answer that must score 1.0; None if the benchmark has none."""

    command: str | None = None
    """The harness of tutti's that makes its attempts, as a suite's `harness.command` names it."""
    command_needs: Sequence[str] = ()
    """Files beside the tasks, of which `command` needs one."""
    search_index: str | None = None
    """The id of the index that its agent searches, if its questions are about one."""
    platform_tools: frozenset[str] = frozenset()
    """Tools of tutti's that its agent has, over the index of its tasks: ``search``, ``python``."""
    is_boxed: bool = False
    """Whether the last box of a message is the answer, not the whole message."""
    is_made: bool = False
    """Whether tutti makes its tasks (`tutti synth`), instead of reading files."""
    reply_tokens: int | None = None
    """The most tokens of a reply where a suite states none; None: by the model's context."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Other rules that a suite can choose (`data.rule`), each with its scorer's name."""
    own_scorer: Scorer | None = None
    """The scorer, if it is not one of tutti's."""
    file: Path | None = None
    """The user's own Python file that defines it."""
    reports: Headline | None = None
    """Its headline measure; None: a mean score where the scorer gives degrees, else the share of
    right answers."""
    subsets: str | None = None
    """The attribute of its tasks by which scores are reported too, such as ``subject``."""

    @property
    def headline(self) -> Headline | None:
        """The stored headline measure; None for the share of right answers."""
        if self.reports is not None or self.own_scorer is not None:
            return self.reports
        if self.scorer in GRADED:
            return MEAN_SCORE
        return SHARE_RIGHT if self.scorer in WHOLE else None

    @property
    def is_scored(self) -> bool:
        """Whether its attempts get a score."""
        return self.own_scorer is not UNSCORED

    @property
    def scoring(self) -> Scorer:
        """The scorer itself."""
        return self.own_scorer or SCORERS[self.scorer]

    @property
    def split(self) -> str:
        """The default split."""
        return next(iter(self.splits))

    def by_rule(self, rule: str | None) -> "Benchmark":
        """The benchmark, scored by another of its `rules`; by its default rule if None.

        Raises BenchmarkError for a rule that it does not have.
        """
        if rule is None or (rule == PUBLISHED and self.rules):
            return self
        if rule not in self.rules:
            known = ", ".join((PUBLISHED, *self.rules)) if self.rules else f"one, {self.scorer}"
            raise BenchmarkError(f"data.rule: {self.name} has no rule {rule!r}; it has {known}")
        return replace(self, scorer=self.rules[rule])

    def load(self, source: Source, left_out: list[ExcludedRow] | None = None) -> Iterator[Task]:
        """Yield every task of `source`, in the files' order.

        Excluded rows are added to `left_out`, and their number is logged. Raises SourceMissing,
        BadRow (also for a duplicate id), BenchmarkError for a benchmark with generated tasks.
        """
        if self.is_made:
            raise BenchmarkError(
                f"{self.name}: its tasks are made, not read; `tutti synth` makes them"
            )
        dropped: list[ExcludedRow] = [] if left_out is None else left_out
        before = len(dropped)
        files = self.files(source)
        seen: set[str] = set()
        for made in self.read(files):
            if isinstance(made, ExcludedRow):
                dropped.append(made)
                continue
            if made.key in seen:
                raise BadRow(files.paths[0], None, "id", f"{made.key} is a duplicate id")
            seen.add(made.key)
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

    def gold_attempt(self, task: Task) -> Submission:
        """Return the submission that must score 1.0. Raises BenchmarkError if the benchmark has no
        gold answer."""
        messages, answer = self.gold_messages(task), self.gold(task)
        return Submission(answer, answer or "", messages, task.target.get("state"))

    def gold_messages(self, task: Task) -> list[dict[str, Any]]:
        """The messages that an attempt must add to score 1.0: for a target of tool calls one
        assistant message that makes them, else one with the gold answer.

        The task's own messages are not included: their calls are not the attempt's. Raises
        BenchmarkError if the benchmark has no gold answer.
        """
        answer = self.gold(task)
        if answer is None:
            raise BenchmarkError(f"{self.name} comes without a gold answer ({task.key})")
        if "calls" not in task.target:
            return [{"role": "assistant", "content": answer}]
        calls = gold_calls(task)
        if not calls:
            return [{"role": "assistant", "content": task.target.get("response", "")}]
        return [{"role": "assistant", "content": None, "tool_calls": calls}]


def gold_calls(task: Task) -> list[dict[str, Any]]:
    """The target's calls in OpenAI's format; of several accepted values the first."""
    return [
        tool_call(f"gold-{place}", call["name"], _arguments(call))
        for place, call in enumerate(task.target["calls"])
    ]


def calls_of(task: Task) -> str:
    """The target's calls as JSON text: the gold answer of a tool-call benchmark."""
    calls = task.target["calls"]
    return json.dumps([{"name": call["name"], "arguments": _arguments(call)} for call in calls])


def tool_call(call_id: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """One tool call in OpenAI's format: the arguments are JSON text."""
    function = {"name": name, "arguments": json.dumps(dict(arguments), ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


def tool(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool in OpenAI's format; `parameters` is a JSON schema of an object."""
    function = {"name": name, "description": description, "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def text_tool(
    name: str, description: str, arguments: Mapping[str, str], is_required: bool = True
) -> dict[str, Any]:
    """A tool whose arguments are texts; `arguments` has the meaning of each, or an empty text."""
    properties = {
        argument: {"type": "string"} | ({"description": meaning} if meaning else {})
        for argument, meaning in arguments.items()
    }
    required = list(arguments) if is_required else []
    schema = {"type": "object", "properties": properties, "required": required}
    return tool(name, description, schema)


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    if "accepted" not in call:
        return dict(call["arguments"])
    accepted: Mapping[str, Sequence[Any]] = call["accepted"]
    # Seven arguments of BFCL's live_simple have no right value.
    must = {name: values for name, values in accepted.items() if name not in call["optional"]}
    return {name: values[0] for name, values in must.items() if values}
