"""Take traces of verifiers: graphs of messages with the calls that made them.

In: a line of ``traces.jsonl``, either one trace (verifiers 0.2) or an episode with the traces of
all its agents (from 0.3; prime-rl). Out: a trial for each trace; an episode that failed before it
had a trace is a trial without messages.

Where the data names its run, that is the run's name, with prime-rl's step. The benchmark is the
environment, with the agent's name where it has one of its own, so that a judge's traces are no
trials of the solver's. Messages keep the order in which they were made; where the graph has
branches, a call's prompt is the path to its message. Prompt tokens include those read from a cache,
as everywhere here; verifiers keeps them apart.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tutti.storage import foreign_error, spans_of
from tutti.tasks.exchange.chat import add_call, last_said, message_row, params, tool_runs
from tutti.tasks.exchange.fields import Fields, RecordRefused, compact, detail_text
from tutti.tasks.exchange.imported import Cell, ImportedAttempt, Row

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
"""The parts of an agent's config that are kept; a harness's environment may hold keys."""
PASS_THRESHOLD = 0.5  # verifiers' own default for pass@k


@dataclass
class RolloutCounts:
    """Counts over the lines read so far, used to number later rollouts."""

    trials: Counter[tuple[Cell, str]] = field(default_factory=Counter)
    """Rollouts of each task so far."""
    models: dict[tuple[str, str], str] = field(default_factory=dict)
    """The last model of each run and benchmark: an episode without a trace has none."""

    def trial(self, cell: Cell, task_id: str) -> int:
        """The number of the task's next rollout."""
        self.trials[cell, task_id] += 1
        return self.trials[cell, task_id] - 1


@dataclass(frozen=True)
class _Episode:
    run: str
    benchmark: str
    counted: "RolloutCounts"


def episode_trials(fields: Fields, run: str, counted: RolloutCounts) -> Iterator[ImportedAttempt]:
    """The trials of one line. If a trace is refused, the episode's others are still read."""
    episode = _Episode(_run(fields, run), _environment(fields, run), counted)
    if "nodes" in fields:
        yield _trial(fields, fields, episode)
        return
    traces = list(fields.each("traces"))
    if not traces:
        yield _without_trace(fields, episode)
    for trace in traces:
        with suppress(RecordRefused):  # the reason is among the line's issues
            yield _trial(trace, fields, episode)


def _run(fields: Fields, run: str) -> str:
    info = fields.inner("run")
    work = info.inner("work")
    parts = [info.identity("id") or run, work.identity("type"), _step(work)]
    copy = "effective" if fields.file.parent.name == "effective" else None
    return "/".join(part for part in [*parts, copy] if part)


def _step(work: Fields) -> str | None:
    step = work.count("step")
    return None if step is None else f"step-{step}"


def _environment(fields: Fields, run: str) -> str:
    env = fields.inner("env")
    return env.identity("id") or env.identity("name") or fields.inner("task").text("type") or run


def _task_id(fields: Fields) -> str:
    task = fields.inner("task")
    data = task.inner("data")
    found = task.identity("key") or data.identity("id") or data.identity("idx")
    return fields.needed("task.key", found or data.identity("name"))


def _numbered(cell: Cell, task_id: str, episode: _Episode, fields: Fields) -> ImportedAttempt:
    number = episode.counted.trial(cell, task_id)
    return ImportedAttempt(cell, task_id, number, file=fields.file, line=fields.line)


def _without_trace(fields: Fields, episode: _Episode) -> ImportedAttempt:
    model = episode.counted.models.get((episode.run, episode.benchmark), "unknown")
    cell = Cell(episode.run, episode.benchmark, model)
    trial = _numbered(cell, _task_id(fields), episode, fields)
    error = _last_error(fields)
    status = "infra_error" if error or not fields.flag("is_timeout") else "limit"
    trial.outcome = {"status": status} | foreign_error(error)
    return trial


def _trial(trace: Fields, fields: Fields, episode: _Episode) -> ImportedAttempt:
    task_id = _task_id(trace if "task" in trace else fields)
    trial = _numbered(_cell(trace, episode), task_id, episode, trace)
    nodes = list(trace.each("nodes"))
    trial.messages = [message_row(node.inner("message")) for node in nodes]
    trial.calls = _calls(trace, nodes, trial)
    _say_prompts(trial, _parents(nodes))
    trial.tool_runs = tool_runs(trial.messages, trial.calls)
    answer = trace.text("root_reply") or last_said(trial.messages)
    trial.outcome = _outcome(trace) | compact(answer=answer)
    if trial.outcome["status"] not in ("infra_error", "cancelled"):
        _score(trace, trial)
    return trial


def _cell(trace: Fields, episode: _Episode) -> Cell:
    agent = trace.inner("agent")
    config = agent.inner("config")
    name = agent.identity("name") or ONLY_AGENT
    called = next((call.identity("model") for call in trace.each("calls") if "model" in call), None)
    settings = {name: config.data[name] for name in SETTINGS if name in config}
    settings |= compact(harness=config.inner("harness").text("id"))
    model = config.identity("model") or called or "unknown"
    episode.counted.models[episode.run, episode.benchmark] = model
    return Cell(
        run=episode.run,
        benchmark=episode.benchmark + ("" if name == ONLY_AGENT else f":{name}"),
        model=model,
        detail=settings | compact(verifiers=trace.data.get("verifiers")),
    )


def _parents(nodes: list[Fields]) -> list[int | None]:
    """The parent of each node; a parent precedes its children."""
    parents = [node.count("parent") for node in nodes]
    for place, (node, parent) in enumerate(zip(nodes, parents, strict=True)):
        if parent is not None and parent >= place:
            node.wrong("parent", "an earlier node")
            parents[place] = None
    return parents


def _say_prompts(trial: ImportedAttempt, parents: list[int | None]) -> None:
    """Set in each call the messages that formed its prompt."""
    calls = {call["call_id"]: call for call in trial.calls}
    for row, parent in zip(trial.messages, parents, strict=True):
        path: list[int] = []
        while "call_id" in row and parent is not None:
            path.append(parent)
            parent = parents[parent]
        if path:
            calls[row["call_id"]]["prompt_spans"] = spans_of(path[::-1])


def _calls(trace: Fields, nodes: list[Fields], trial: ImportedAttempt) -> list[Row]:
    given = list(trace.each("calls"))
    calls: list[Row] = []
    for call in given:
        place = call.count("node")
        known = place is not None and place < len(nodes)
        if place is not None and not known:
            call.wrong("node", f"one of the {len(nodes)} nodes")
        row = add_call(calls, **_call(call))
        if place is not None and known:
            row |= _tokens(nodes[place])
            trial.messages[place]["call_id"] = row["call_id"]
    if not given:
        for place, node in enumerate(nodes):
            if node.flag("sampled"):
                finish = node.text("finish_reason")
                row = add_call(calls, finish_reason=finish, **_usage(node), **_tokens(node))
                trial.messages[place]["call_id"] = row["call_id"]
    return calls + [_judge_call(n, usage) for n, usage in enumerate(trace.each("extra_usage"))]


def _call(call: Fields) -> Row:
    error, time = call.inner("error"), call.inner("time")
    sent, ended = time.epoch("start"), time.epoch("end")
    if sent and ended and ended < sent:
        time.problem("end", "is before the start")
        ended = None
    row: Row = {"status": "error" if "error" in call else "ok"}
    return row | compact(
        model=call.text("model"),
        endpoint=call.text("endpoint"),
        sent_at=sent,
        admitted_at=sent,
        ended_at=ended,
        latency_s=(ended - sent).total_seconds() if sent and ended else None,
        finish_reason=call.text("finish_reason"),
        http_status=error.count("status_code"),
        params=params(call.data.get("sampling")),
        **_usage(call),
    )


def _usage(fields: Fields) -> Row:
    usage = fields.inner("usage")
    new, cached = usage.count("prompt_tokens"), usage.count("cached_input_tokens")
    return compact(
        prompt_tokens=None if new is None else new + (cached or 0),
        cached_tokens=cached,
        completion_tokens=usage.count("completion_tokens"),
        cost_usd=usage.amount("cost"),
    )


def _judge_call(place: int, usage: Fields) -> Row:
    """Tokens used by judges; verifiers keeps nothing else of their calls."""
    holder = Fields(usage.file, usage.line, {"usage": usage.data}, usage.problems)
    row = {"call_id": f"judge-{place + 1}", "step": 0, "role": "judge", "status": "ok"}
    return row | _usage(holder)


def _tokens(node: Fields) -> Row:
    """The model's sampled tokens: a node's tokens begin with those of the chat template."""
    mask, tokens = node.array("mask"), node.array("token_ids")
    if len(mask) != len(tokens):
        node.problem("mask", f"{len(mask)} values for {len(tokens)} tokens")
        return {}
    own = [token for token, made in zip(tokens, mask, strict=True) if made is True]
    picked = node.data | {"token_ids": own}
    chosen = Fields(node.file, node.line, picked, node.problems, node.path)
    return chosen.sampled("token_ids", "logprobs")


def _outcome(trace: Fields) -> Row:
    stop, error = trace.text("stop_condition"), _last_error(trace)
    timing = trace.inner("timing")
    agent = timing.inner("agent" if "agent" in timing else "generation")
    began, ended = agent.epoch("start"), agent.epoch("end")
    return (
        {"status": _status(trace, stop, error)}
        | foreign_error(error)
        | compact(
            stop_reason=stop,
            started_at=timing.epoch("start") or began,
            ended_at=timing.inner("scoring").epoch("end") or ended,
            working_s=(ended - began).total_seconds()
            if began and ended and ended >= began
            else None,
        )
    )


def _status(trace: Fields, stop: str | None, error: str | None) -> str:
    if stop in LIMITS:
        return "limit"
    if stop in SCORING:
        return "scorer_error"
    if trace.flag("is_timeout"):
        return "infra_error"
    ok = trace.flag("ok")
    if error and ok is not True:
        return "infra_error"
    if ok or (ok is None and trace.flag("is_completed") is not False):
        return "ok"
    return "infra_error" if trace.flag("is_completed") else "cancelled"


def _last_error(fields: Fields) -> str | None:
    errors = list(fields.each("errors"))
    if not errors:
        return None
    parts = [errors[-1].text("type"), errors[-1].text("message")]
    return ": ".join(part for part in parts if part) or "unknown"


def _score(trace: Fields, trial: ImportedAttempt) -> None:
    rewards = trace.inner("rewards")
    rows, total = [], 0.0
    for name in rewards.data:
        value, weight = _reward(rewards, name)
        if value is not None:
            total += value * weight
            rows.append({"scorer": name, "value": value, "detail": detail_text(weight=weight)})
    if rows:
        answer = trial.outcome.get("answer")
        trial.score("reward", total, total >= PASS_THRESHOLD, answer=answer)
    trial.scores += rows + trace.inner("metrics").score_rows()


def _reward(rewards: Fields, name: str) -> tuple[float | None, float]:
    """A reward and its weight; the first traces stored only the weighted number."""
    if not isinstance(rewards.data[name], dict):
        return rewards.number(name), 1.0
    reward = rewards.inner(name)
    weight = reward.number("weight")
    return reward.number("score"), 1.0 if weight is None else weight
