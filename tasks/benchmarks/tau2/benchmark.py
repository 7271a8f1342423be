"""tau2-bench: an agent serves a simulated customer under a policy, with a domain's tools.

The right outcome comes from replaying all gold actions on the domain's tools. If these are
available (`TOOLSETS`), the target has the outcome as ``state``; the other domains run in tau2's own
package (`deployments/harnesses/tau2_episode.py`), or are scored by the gold trajectory's calls.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tutti.tasks.benchmarks.benchmark import tool_call
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.tau2.dialogue import ENDED, tau2_world
from tutti.tasks.benchmarks.tau2.domain import SIDES, Domain, Tau2Task, read_domain
from tutti.tasks.benchmarks.tau2.mock import MOCK
from tutti.tasks.benchmarks.tau2.world import Toolset, gold_outcome
from tutti.tasks.task_sets import Task

TOOLSETS: dict[str, Toolset] = {"mock": MOCK}
"""The domains whose tools are available here, by folder."""
mock_world = partial(tau2_world, MOCK)


def read(files: Files, folder: str) -> Iterator[Task]:
    """Every task of the domain in `folder`. Raises BadRow."""
    place = files.paths[0].parent
    domain, toolset = read_domain(place), TOOLSETS.get(folder)
    for task in domain.tasks:
        target = _target(task)
        if toolset is not None:
            gold = gold_outcome(domain, toolset, task) | {ENDED: True}
            target |= {"state": gold, "database": str(place)}
        yield Task(
            key=task.id,
            inputs={
                "policy": "\n\n".join([domain.policy, *domain.manuals.values()]).strip(),
                "scenario": task.scenario,
                "ticket": task.ticket,
            },
            target=target,
            attributes=_attributes(task, domain),
            given=_history(task),
            tools=toolset.schemas(SIDES[0]) if toolset else (),
        )


def _history(task: Tau2Task) -> list[dict[str, Any]]:
    messages = []
    for message in task.initial_state.get("message_history") or ():
        made = {"role": message["role"], "content": message.get("content")}
        if message.get("tool_calls"):
            made["tool_calls"] = [
                tool_call(call["id"], call["name"], call["arguments"])
                for call in message["tool_calls"]
            ]
        if message["role"] == "tool":
            made["tool_call_id"] = message["id"]
        messages.append(made)
    return messages


def _target(task: Tau2Task) -> dict[str, Any]:
    calls = [
        {"name": action["name"], "arguments": action["arguments"]}
        for action in task.actions
        if action["requestor"] == SIDES[0]
    ]
    return {
        "calls": calls,
        "extra": "allowed",
        "actions": list(task.actions),
        "initial_state": task.initial_state,
        "communicate": list(task.communicate),
        "nl_assertions": list(task.nl_assertions),
        "env_assertions": list(task.env_assertions),
        "rewards": list(task.rewards),
        "documents": list(task.documents),
    }


def _attributes(task: Tau2Task, domain: Domain) -> dict[str, str]:
    splits = [name for name, ids in domain.splits.items() if task.id in ids and name != "base"]
    return {
        "domain": domain.name,
        "split": splits[0] if splits else "base",
        "actions": str(len(task.actions)),
        "rewards": "+".join(task.rewards),
        "in_base": str(task.id in domain.splits.get("base", (task.id,))).lower(),
        # Whether a model must judge what was said for the reward.
        "judged": str("NL_ASSERTION" in task.rewards and bool(task.nl_assertions)).lower(),
    }
