"""Import of verifiers' traces: graphs of messages with the calls that produced them.

In: a line of ``traces.jsonl``, one trace (verifiers 0.2) or an episode with the traces of all its
agents (from 0.3; prime-rl). Out: a trial for each trace, and one without messages for an episode
that failed before it had a trace. The benchmark is the environment, with the agent's name if it has
one, so that a judge's traces do not count as trials of the solver. If the graph has branches, a
call's prompt is the path to its message. Prompt tokens include those read from a cache.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tutti.storage import foreign_error, spans_of
from tutti.tasks.exchange.base.chat import add_call, last_reply, message_row, params, tool_runs
from tutti.tasks.exchange.base.fields import Fields, RecordRefused, compact, detail_text, seconds
from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt, Row

ONLY_AGENT = "agent"  # verifiers' name of the agent of a single-agent environment
LIMITS = {
    "max_turns",
    "max_input_tokens",
    "max_output_tokens",
    "max_total_tokens",
    "agent_timeout",
    "rollout_timeout",
    "context_length",
}
"""Stop conditions for exhausted turns, tokens or time."""
SCORING = ("scoring_timeout", "scoring_error")
SETTINGS = ("sampling", "max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens")
"""The parts of an agent's config that are stored; a harness's environment may hold API keys."""
PASS_THRESHOLD = 0.5  # verifiers' own default for pass@k


@dataclass
class RolloutCounts:
    """Counts over the lines read so far, used to number later rollouts."""

    trials: Counter[tuple[Cell, str]] = field(default_factory=Counter)
    models: dict[tuple[str, str], str] = field(default_factory=dict)
    """The last model of each run and benchmark: an episode without a trace has none."""

    def trial(self, cell: Cell, task_id: str) -> int:
        """The number of the task's next rollout."""
        self.trials[cell, task_id] += 1
        return self.trials[cell, task_id] - 1


def episode_trials(fields: Fields, run: str, counted: RolloutCounts) -> Iterator[ImportedAttempt]:
    """The trials of one line. If a trace is refused, the episode's others are still read."""
    step = fields.count("run.work.step")
    parts = [fields.identity("run.id") or run, fields.identity("run.work.type")]
    parts.append(None if step is None else f"step-{step}")
    parts.append("effective" if fields.file.parent.name == "effective" else None)
    run = "/".join(part for part in parts if part)
    benchmark = fields.identity("env.id") or fields.identity("env.name")
    benchmark = benchmark or fields.text("task.type") or run
    traces = [fields] if "nodes" in fields else list(fields.each("traces"))
    if not traces:
        model = counted.models.get((run, benchmark), "unknown")
        trial = _attempt(Cell(run, benchmark, model), fields, fields, counted)
        error = _last_error(fields)
        status = "infra_error" if error or not fields.flag("is_timeout") else "limit"
        trial.outcome = {"status": status} | foreign_error(error)
        yield trial
    for trace in traces:
        with suppress(RecordRefused):  # the reason is among the line's issues
            cell = _cell(trace, run, benchmark)
            counted.models[run, benchmark] = cell.model
            trial = _attempt(cell, trace if "task" in trace else fields, trace, counted)
            _fill(trial, trace)
            yield trial


def _attempt(cell: Cell, fields: Fields, trace: Fields, counted: RolloutCounts) -> ImportedAttempt:
    """Return an attempt at the task that `fields` name."""
    names = ("task.key", "task.data.id", "task.data.idx", "task.data.name")
    task_id = fields.needed("task.key", next(filter(None, map(fields.identity, names)), None))
    number = counted.trial(cell, task_id)
    return ImportedAttempt(cell, task_id, number, file=trace.file, line=trace.line)


def _cell(trace: Fields, run: str, benchmark: str) -> Cell:
    config = trace.inner("agent.config")
    name = trace.identity("agent.name") or ONLY_AGENT
    called = (call.identity("model") for call in trace.each("calls"))
    return Cell(
        run=run,
        benchmark=benchmark + ("" if name == ONLY_AGENT else f":{name}"),
        model=config.identity("model") or next(filter(None, called), "unknown"),
        detail=config.picked(SETTINGS)
        | compact(harness=config.text("harness.id"), verifiers=trace.get("verifiers")),
    )


def _fill(trial: ImportedAttempt, trace: Fields) -> None:
    nodes = list(trace.each("nodes"))
    trial.messages = [message_row(node.inner("message")) for node in nodes]
    trial.calls = _calls(trace, nodes, trial.messages)
    parents = [node.count("parent") for node in nodes]
    for place, (node, parent) in enumerate(zip(nodes, parents, strict=True)):
        if parent is not None and parent >= place:
            node.wrong("parent", "an earlier node")
            parents[place] = None
    calls = {call["call_id"]: call for call in trial.calls}
    for row, parent in zip(trial.messages, parents, strict=True):
        path: list[int] = []  # the messages that formed the prompt
        while "call_id" in row and parent is not None:
            path.append(parent)
            parent = parents[parent]
        if path:
            calls[row["call_id"]]["prompt_spans"] = spans_of(path[::-1])
    trial.tool_runs = tool_runs(trial.messages, trial.calls)
    answer = trace.text("root_reply") or last_reply(trial.messages)
    trial.outcome = _outcome(trace) | compact(answer=answer)
    if trial.outcome["status"] not in ("infra_error", "cancelled"):
        _score(trace, trial)


def _calls(trace: Fields, nodes: list[Fields], messages: list[Row]) -> list[Row]:
    given = list(trace.each("calls"))
    calls: list[Row] = []
    for call in given:
        sent, ended = call.epoch("time.start"), call.epoch("time.end")
        if sent and ended and ended < sent:
            call.problem("time.end", "is before the start")
            ended = None
        row = add_call(
            calls,
            status="error" if "error" in call else "ok",
            model=call.text("model"),
            endpoint=call.text("endpoint"),
            sent_at=sent,
            admitted_at=sent,
            ended_at=ended,
            latency_s=seconds(sent, ended),
            finish_reason=call.text("finish_reason"),
            http_status=call.count("error.status_code"),
            params=params(call.get("sampling")),
            **_usage(call.inner("usage")),
        )
        place = call.count("node")
        if place is not None and place >= len(nodes):
            call.wrong("node", f"one of the {len(nodes)} nodes")
        elif place is not None:
            row |= _tokens(nodes[place])
            messages[place]["call_id"] = row["call_id"]
    for place, node in enumerate(() if given else nodes):
        if node.flag("sampled"):
            sampled = {"finish_reason": node.text("finish_reason"), **_tokens(node)}
            row = add_call(calls, **sampled, **_usage(node.inner("usage")))
            messages[place]["call_id"] = row["call_id"]
    # Tokens of judges; verifiers stores nothing else of their calls.
    for number, usage in enumerate(trace.each("extra_usage"), 1):
        judge = {"call_id": f"judge-{number}", "step": 0, "role": "judge", "status": "ok"}
        calls.append(judge | _usage(usage))
    return calls


def _usage(usage: Fields) -> Row:
    new, cached = usage.count("prompt_tokens"), usage.count("cached_input_tokens")
    return compact(
        prompt_tokens=None if new is None else new + (cached or 0),
        cached_tokens=cached,
        completion_tokens=usage.count("completion_tokens"),
        cost_usd=usage.amount("cost"),
    )


def _tokens(node: Fields) -> Row:
    """The model's sampled tokens: a node's tokens begin with those of the chat template."""
    mask, tokens = node.array("mask"), node.array("token_ids")
    if len(mask) != len(tokens):
        node.problem("mask", f"{len(mask)} values for {len(tokens)} tokens")
        return {}
    own = [token for token, sampled in zip(tokens, mask, strict=True) if sampled is True]
    chosen = node.part("", node.data | {"token_ids": own})
    return chosen.sampled("token_ids", "logprobs")


def _outcome(trace: Fields) -> Row:
    stop, error = trace.text("stop_condition"), _last_error(trace)
    agent = trace.inner("timing.agent" if "timing.agent" in trace else "timing.generation")
    began, ended = agent.epoch("start"), agent.epoch("end")
    return foreign_error(error) | compact(
        status=_status(trace, stop, error),
        stop_reason=stop,
        started_at=trace.epoch("timing.start") or began,
        ended_at=trace.epoch("timing.scoring.end") or ended,
        working_s=seconds(began, ended),
    )


def _status(trace: Fields, stop: str | None, error: str | None) -> str:
    if stop in LIMITS:
        return "limit"
    if stop in SCORING:
        return "scorer_error"
    ok, completed = trace.flag("ok"), trace.flag("is_completed")
    if trace.flag("is_timeout") or (error and ok is not True):
        return "infra_error"
    if ok or (ok is None and completed is not False):
        return "ok"
    return "infra_error" if completed else "cancelled"


def _last_error(fields: Fields) -> str | None:
    errors = list(fields.each("errors"))
    return error_text(errors[-1].text("type"), errors[-1].text("message")) if errors else None


def error_text(*parts: str | None) -> str:
    """The text of an error from its kind and its message."""
    return ": ".join(filter(None, parts)) or "unknown"


def _score(trace: Fields, trial: ImportedAttempt) -> None:
    rewards = trace.inner("rewards")
    rows, total = [], 0.0
    for name, reward in rewards.data.items():
        # The first traces had only the weighted number.
        parts = rewards.part(name, reward if isinstance(reward, dict) else {})
        value = parts.number("score") if isinstance(reward, dict) else rewards.number(name)
        weight = parts.number("weight")
        weight = 1.0 if weight is None else weight
        if value is not None:
            total += value * weight
            rows.append({"scorer": name, "value": value, "detail": detail_text(weight=weight)})
    if rows:
        answer = trial.outcome.get("answer")
        trial.score("reward", total, total >= PASS_THRESHOLD, answer=answer)
    trial.scores += rows + trace.inner("metrics").score_rows()
