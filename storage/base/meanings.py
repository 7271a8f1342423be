"""The meaning of every table, view and column, as SQL comments and for ``docs/tables.md``.

A column with the same meaning in several tables is in `COMMON`; `OF_TABLE` has the others, and
takes precedence. Durations end in ``_s`` and are seconds; times are UTC.
"""

from collections.abc import Mapping

TABLES: Mapping[str, str] = {
    "attempts": "one row per attempt at a sample (a task in one trial)",
    "messages": "the messages of attempts, in order",
    "auxiliary_messages": "prompts and answers of experts, judges and simulated users, each "
    "message once a thread",
    "calls": "calls of models, by agents, judges, simulated users and experts",
    "tool_runs": "runs of tools",
    "retrievals": "queries of indexes",
    "scores": "scores of attempts; a re-score adds rows",
    "server_metrics": "samples of the engines' metrics, and of GPUs (NVML)",
    "gateway_events": "events of programs at the gateway",
    "tasks": "tasks of task sets, also those that a gate rejected",
    "gate_verdicts": "what each gate said of a synthesized task; none after the first rejection",
    "train_steps": "steps of training runs",
    "parts": "the Parquet files behind the tables",
    "artifacts": "everything with an id in the lineage",
    "artifact_parents": "which artifact was made from which",
    "runs": "runs of flows and imports",
    "sweeps": "planned sweeps and imported runs",
    "cells": "a cell: one benchmark, model, policy, concurrency and repeat of a sweep",
    "windows": "windows of cells that were named, for example by the suite",
    "verdicts": "comparisons and nights that were judged",
    "task_sets": "task sets, from artifacts",
    "results": "the report's table: one row per cell that was not superseded",
    "headlines": "what the headline score of each cell is",
    "counted": "the attempts that count in a score, one per sample, with their newest verdict",
    "lost_samples": "samples without a score, lost to infrastructure or to a scorer",
}

COMMON: Mapping[str, str] = {
    "run_id": "the run that made it",
    "sweep_id": "the sweep; null: of none",
    "cell_id": "the cell; null: of none",
    "sample_id": "the sample: a task in one trial of a cell",
    "attempt_id": "the attempt; for a gateway's call the program",
    "task_id": "the task, unique in its task set",
    "task_set_id": "the task set",
    "engine_id": "the engine; null: not known",
    "artifact_id": "id: kind, colon, hash of content and parents",
    "index_id": "the retrieval index; empty: none",
    "benchmark": "the benchmark's name",
    "model": "the model's name in the registry; without one, as requested",
    "policy": "the scheduling policy; null: an imported log does not say",
    "concurrency": "sessions at once; null: not known, as in some imports",
    "repeat": "which repeat of the set-up, from 0; -1: the A/A baseline",
    "trial": "which trial of the task, from 0",
    "attempt": "which attempt of the sample, from 1; more after infra errors",
    "step": "the step of the attempt, from 1; null: of no step",
    "started_at": "start, UTC",
    "ended_at": "end, UTC; null: not ended",
    "created_at": "when it was entered, UTC",
    "at": "time, UTC",
    "held_s": "seconds that the gateway held it back; null: not held",
    "latency_s": "seconds from request to end",
    "prompt_tokens": "tokens of prompts; null: not reported",
    "cached_tokens": "prompt tokens served from a cache; null: not reported",
    "completion_tokens": "generated tokens; null: not reported",
    "cost_usd": "USD; null: a price is unknown",
    "answer": "the extracted answer; null: none",
    "correct": "whether it is right; null: no verdict",
    "error_type": "short kind of error: http_503, worker_lost, ...; null: none",
    "name": "the name",
    "arguments": "arguments, JSON",
    "status": "ok or the kind of failure",
    "reason": "why, in words; null: no reason",
    "reason_code": "why, as a code; null: no reason",
    "detail": "details, JSON",
    "tokens": "tokens",
    "rows": "number of rows",
}

_MESSAGE: Mapping[str, str] = {
    "position": "place in the conversation, from 0",
    "role": "system, user, assistant or tool",
    "content": "the text; null: only tool calls",
    "reasoning": "reasoning text; null: none",
    "tool_calls": "tool calls in this message: id, name, arguments (JSON)",
    "tool_call_id": "the tool call that this answers; null: none",
    "name": "the tool's or speaker's name; null: none",
    "call_id": "the call that generated it; null: not generated here",
}

OF_TABLE: Mapping[str, Mapping[str, str]] = {
    "attempts": {
        "status": "ok, limit, model_error (these are scored), infra_error, scorer_error, cancelled",
        "stop_reason": "why it ended: answered, no_answer, malformed, turns, time, tokens, money, "
        "context, ModelCallFailed, ToolUnavailable, worker_lost; of a gateway's program released, "
        "idle, crowded_out, gateway_stopped; imports may have others",
        "error_message": "the error's text; null: no error",
        "due_at": "planned start of an open-loop load, UTC; null: closed loop",
        "working_s": "seconds of work, without `held_s` and a simulated user's time; null: not "
        "measured",
        "held_s": "seconds of waiting for endpoints: held by the gateway, in tries that failed, "
        "before the next try; null: not measured",
        "steps": "steps of the agent",
        "calls": "calls of the agent's model",
        "tool_calls": "tool calls that the model asked for",
        "answer": "the agent's answer, of a benchmark its whole last text; null: none",
        "score": "headline score; null: not scored",
        "source": "sweep, gateway (a program that came by base URL) or import; null: stored before "
        "version 9",
    },
    "messages": _MESSAGE,
    "auxiliary_messages": {
        **_MESSAGE,
        "thread": "the conversation that it is of: the id of its first call",
        "position": "place in the thread, from 0",
    },
    "calls": {
        "call_id": "the call",
        "role": "orchestrator (the agent), expert, judge, user (simulated), teacher, embedder",
        "endpoint": "id of the engine or endpoint that got the call",
        "sent_at": "sent by the client, UTC",
        "admitted_at": "sent on by the gateway, UTC; null: no gateway",
        "first_token_at": "first token, UTC; null: not streamed",
        "ttft_s": "seconds to the first token; null: not streamed",
        "finish_reason": "stop, length, tool_calls, ...; null: no answer",
        "status": "ok, or error",
        "http_status": "HTTP status; null: no response",
        "retry": "0: first try; else which retry",
        "params": "request parameters, JSON; `model` is the served name, if not the registry's",
        "prompt_hash": "hash of the prompt's messages",
        "prompt_spans": "first and last positions of the prompt's messages; see prompt(call)",
        "prompt_thread": "the thread of auxiliary_messages that has them; null: in messages",
        "token_ids": "generated token ids; null: not recorded",
        "logprobs": "their log-probabilities; null: not recorded",
        "prompt_token_ids": "the prompt's token ids, as spans: references to positions of an "
        "earlier call's prompt and completion, or new ids; null: not recorded",
        "weights_at_start": "version of the weights when the engine was called; null: not changed",
        "weights_at_end": "version of the weights when the answer was complete",
    },
    "tool_runs": {
        "name": "the tool",
        "result": "what the tool returned",
        "status": "ok, timeout or error",
    },
    "retrievals": {
        "index_id": "the index; toolorchestra: a service of ToolOrchestra, which names none",
        "query": "the query's text",
        "doc_ids": "documents found, best first",
        "scores": "their scores",
    },
    "scores": {
        "scorer": "the scorer's name",
        "scorer_version": "its version",
        "value": "the score; null: it could not score",
        "answer": "the answer as the scorer read it; null: it found none, which is no vote in a "
        "majority",
        "judge_call_id": "the judge's call; null: no judge",
        "scored_at": "when, UTC",
    },
    "server_metrics": {
        "name": "the engine's own name of the metric, such as vllm:num_requests_running",
        "value": "value; a counter's is the total since the engine started",
    },
    "gateway_events": {
        "program_id": "the program (attempt)",
        "event": "arrive, hold, admit, first_token, finish, tool_start, pause, resume, release, "
        "expire, reject, disconnect",
        "tokens": "tokens of the program",
        "booked": "tokens booked by all programs",
        "capacity": "tokens that the policy may book",
    },
    "tasks": {
        "family": "the task's family",
        "split": "train, test, ...",
        "question": "the task's text",
        "answer": "the right answer",
        "slots": "values of the template, JSON",
        "sources": "documents it was made from",
        "status": "accepted, or rejected by the gate",
        "oracle_messages": "a solution's messages, JSON; null: none",
        "gated_at": "when the gate decided, UTC",
        "template": "what the task was made from; null: a family's task",
        "difficulty": "hops, distractors, tools, steps ... as JSON; null: not stated",
    },
    "gate_verdicts": {
        "gate": "the gate's name",
        "position": "its place in the order of the gates, from 1",
        "passed": "whether the task passed it",
        "reason": "why it did not; empty where it did",
        "measured": "what the gate compared with its threshold; null: it has none",
        "gated_at": "when the gate decided, UTC",
    },
    "train_steps": {
        "checkpoint_id": "the checkpoint made by the run",
        "step": "optimizer step",
        "tokens": "tokens so far",
        "loss": "training loss",
        "token_accuracy": "share of tokens predicted, 0 to 1",
        "tokens_per_s": "tokens per second",
        "weights": "version of the weights that the step made",
        "sequences": "sequences in the step",
        "groups": "groups of attempts of one task in the step",
        "seconds": "duration of the step",
        "learning_rate": "learning rate",
        "gradient_norm": "norm of the gradient before it was clipped",
        "reward": "mean reward of the step's attempts, those of dead groups included",
        "entropy": "mean entropy of the policy at trained tokens, in nats",
        "kl": "mean KL to the reference model, in nats per token",
        "clip_share": "share of trained tokens whose ratio was clipped, 0 to 1",
        "mfu": "model FLOPs utilisation, 0 to 1; null: the device's peak is unknown",
        "peak_mb": "peak memory so far, MB: allocated on the GPU, else resident of the trainer",
        "dead_group_share": "share of groups with equal rewards, 0 to 1",
        "rollouts_per_s": "attempts per second of the step's rollouts",
        "staleness": "mean number of updates between the weights that sampled and those trained",
        "mismatch_kl": "mean KL of the trainer's to the engine's probabilities, nats per token",
        "mismatch_max": "largest difference of a log-probability, trainer to engine",
        "mismatch_share": "share of tokens whose log-probabilities differ by more than 0.1",
        "held_out_loss": "loss on held-out tasks, nats per token; null: not measured at this step",
        "chosen_reward": "mean beta x gain over the reference of chosen (wanted) answers, in nats",
        "rejected_reward": "the same of rejected (not wanted) answers",
        "margin": "chosen_reward less rejected_reward",
        "preference_accuracy": "share of pairs whose chosen answer gained more, 0 to 1",
    },
    "parts": {
        "part_id": "the part",
        "table_name": "its table",
        "path": "path in the store",
        "bytes": "size in bytes",
        "sha256": "checksum",
        "schema_version": "version of the columns",
        "mtime_ns": "file time when last verified, ns; null: at a URL",
        "removed_at": "null: visible",
        "removed_why": "compacted, retention, removed or quarantined; null: visible",
        "replaced_by": "parts that replaced it; null: none",
    },
    "artifacts": {"kind": "index, checkpoint, cell, ...", "path": "path in the store; null: none"},
    "artifact_parents": {"parent_id": "what it was made from"},
    "runs": {
        "flow": "the flow, import, or gateway",
        "params": "parameters, JSON",
        "machine": "the machine, JSON",
        "code_version": "tutti's version",
        "status": "running, completed, failed, cancelled",
        "error": "the error; null: none",
    },
    "sweeps": {
        "spec": "the suite, JSON",
        "paused_at": "paused since, UTC; null: not paused",
    },
    "cells": {
        "position": "place in the sweep's order, from 0",
        "samples": "planned samples",
        "status": "planned, finished, ended_early, superseded, expired, or running",
        "sandbox": "isolation of model-written programs; null: not known",
        "reason_code": "latency_limit, accuracy_decided, time_limit, late, budget_minutes, "
        "budget_usd, expired, other; null: complete or not ended",
        "reason_value": "the limit, margin or budget of the reason; null: none",
        "reason_reference": "the policy that accuracy was compared with; null: none",
    },
    "windows": {
        "name": "the window's name",
        "start_s": "start, seconds since the cell's first call",
        "end_s": "end, seconds since the cell's first call",
        "reason_code": "suite: named by the suite; null: entered from elsewhere",
    },
    "verdicts": {
        "verdict_id": "the verdict",
        "cell_a": "the reference",
        "cell_b": "what is judged",
        "metric": "the figure that is compared",
        "n": "pairs",
        "difference": "b minus a",
        "ci_low": "lower end of the 95 % interval",
        "ci_high": "upper end of the 95 % interval",
        "p": "p-value",
        "verdict": "better, worse, same or inconclusive",
    },
    "results": {
        "sweep": "the sweep's name",
        "is_newest": "whether the sweep is the newest of its name",
        "position": "place in the sweep's order",
        "status": "the cell's status, as in cells",
        "n": "attempts that count, as in counted",
        "tasks": "different tasks among them",
        "correct": "right attempts among them",
        "n_infra": "attempts lost to infrastructure errors",
        "measure": "what score is: accuracy, or mean score; see headlines",
        "score": "mean over tasks of headline_score; null: nothing counts",
        "score_low": "lower end of its 95 % interval",
        "score_high": "upper end of its 95 % interval",
        "trials": "most scored trials of a task; null: one each",
        "pass_at_k": "chance that at least one of k = trials is right",
        "pass_hat_k": "chance that all of k = trials are right",
        "steps": "steps that ended in the window",
        "steps_per_min": "steps per minute in the window; null: load not known",
        "p50_s": "median step latency, seconds",
        "p95_s": "95th percentile of step latency, seconds",
        "p99_s": "99th percentile of step latency, seconds",
        "held_p95_s": "95th percentile of held_s, seconds",
        "prefill_s_mean": "mean prefill time of a request at the engine, seconds",
        "decode_s_mean": "mean decode time of a request at the engine, seconds",
        "server_hit_ratio": "prefix cache hits at the engine, 0 to 1",
        "kv_usage_mean": "mean KV cache use, 0 to 1",
        "running_mean": "mean number of requests that the engines ran",
        "waiting_mean": "mean number of requests that waited at the engines",
        "preemptions_per_s": "preemptions at the engines per second",
        "sessions_mean": "mean number of attempts that ran",
        "calls_in_flight_mean": "mean number of admitted calls",
        "tools_running_mean": "mean number of tool runs",
        "cost_usd": "USD of all attempts; null: the cost of one that ended is unknown",
        "cost_mean_usd": "mean USD of an attempt that counts; null: one is unknown",
        "cost_deviation_usd": "standard deviation of that cost",
        "is_steady": "whether the window is the steady one; else the whole cell",
        "window_start_s": "start, seconds since the first call",
        "window_end_s": "end, seconds since the first call",
        "window_reason": "why the window is the steady one, or the whole cell",
        "last_s": "when the last call, tool run or attempt ended, seconds since the first call",
    },
    "headlines": {"measure": "accuracy (share of right attempts), or mean score"},
    "counted": {
        "measure": "what headline_score is, as in headlines",
        "is_right": "whether it is right; without a verdict it is wrong",
        "headline_score": "1 or 0, or the score where the measure is mean score",
    },
}


def meaning(table: str, column: str) -> str:
    """Return the meaning of a column; empty for one that is not in the contract."""
    if table == "counted" and column not in OF_TABLE[table]:
        return meaning("attempts", column)
    return OF_TABLE.get(table, {}).get(column) or (
        COMMON.get(column, "") if table in TABLES else ""
    )


def comments_sql(kinds: Mapping[str, tuple[str, tuple[str, ...]]]) -> str:
    """Return SQL comments on tables and views: by name, ``table`` or ``view``, and the columns."""
    lines = []
    for name, (kind, columns) in kinds.items():
        lines.append(f"comment on {kind} {name} is {_text(TABLES[name])};")
        for column in columns:
            if words := meaning(name, column):
                lines.append(f'comment on column {name}."{column}" is {_text(words)};')
    return "begin;" + "".join(lines) + "commit;"


def as_markdown(kinds: Mapping[str, tuple[str, tuple[str, ...]]]) -> str:
    """Return the page ``docs/tables.md``."""
    lines = [
        "# Tables",
        "",
        "Made from `storage/base/meanings.py` by `python -m tutti.storage.read.views`.",
    ]
    lines += ["Null has the meaning that is given; where none is given, it means not known."]
    for name, (_, columns) in kinds.items():
        lines += ["", f"## {name}", "", f"{TABLES[name].capitalize()}.", "", "| column | meaning |"]
        lines += ["|---|---|", *(f"| `{each}` | {meaning(name, each)} |" for each in columns)]
    return "\n".join(lines) + "\n"


def _text(words: str) -> str:
    return "'" + words.replace("'", "''") + "'"
