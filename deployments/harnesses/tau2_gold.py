"""The gold actions of a domain of tau2-bench, replayed and rewarded by tau2's own package.

In: a checkout, a domain, and how many tasks (all, if left out). Out: the last line, JSON: how many
tasks were replayed, how many got reward 1 for it, which did not and why, and how many got reward 1
without doing anything. What a judge decides counts as met, because nobody is asked.

    .venv-harnesses/tau2/bin/python deployments/harnesses/tau2_gold.py CHECKOUT retail
"""

import json
import sys
from typing import TYPE_CHECKING, Any

from tau2_data import DOMAINS, read_tasks, use_data

if TYPE_CHECKING:
    from tau2.data_model.message import Message
    from tau2.data_model.simulation import RewardInfo
    from tau2.data_model.tasks import Task

TIME = "2025-01-01T00:00:00"
RIGHT = 1e-6  # tau2's own tolerance of a success
RETRIEVAL = "bm25"  # banking's that needs no model


def main(checkout: str, domain: str, limit: str | None = None) -> None:
    """Replay the tasks and print what was found."""
    domain = DOMAINS.get(domain, domain)
    folder = use_data(checkout, domain)
    from loguru import logger

    logger.remove()
    _met_by_everybody()
    tasks = list(read_tasks(folder).values())[: None if limit is None else int(limit)]
    found: dict[str, Any] = {"domain": domain, "tasks": len(tasks), "rewarded": 0}
    found |= {"idle_rewarded": 0, "not_rewarded": {}}
    for task in tasks:
        reward = _reward(task, domain, _golden(task, domain))
        if abs(reward.reward - 1.0) <= RIGHT:
            found["rewarded"] += 1
        else:
            parts = {part.value: value for part, value in (reward.reward_breakdown or {}).items()}
            found["not_rewarded"][task.id] = parts
        idle = _reward(task, domain, _said("I cannot help you."))
        found["idle_rewarded"] += abs(idle.reward - 1.0) <= RIGHT
    print(json.dumps(found))


def _met_by_everybody() -> None:
    from tau2.data_model.simulation import NLAssertionCheck
    from tau2.evaluator.evaluator_nl_assertions import NLAssertionsEvaluator

    def met(_: Any, assertions: list[str]) -> list[NLAssertionCheck]:
        return [NLAssertionCheck(nl_assertion=a, met=True, justification="") for a in assertions]

    NLAssertionsEvaluator.evaluate_nl_assertions = staticmethod(met)


def _environment(task: "Task", domain: str) -> dict[str, Any]:
    """What tau2 gives the environment of a task."""
    from tau2.data_model.simulation import TextRunConfig
    from tau2.runner.build import _build_env_kwargs

    more = {"retrieval_config": RETRIEVAL} if domain == "banking_knowledge" else {}
    return _build_env_kwargs(TextRunConfig(domain=domain, **more), task)


def _golden(task: "Task", domain: str) -> list["Message"]:
    """A dialogue that makes the gold calls of both sides, then says what must be said."""
    from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage
    from tau2.runner.build import build_environment

    environment = build_environment(domain, env_kwargs=_environment(task, domain))
    start, criteria = task.initial_state, task.evaluation_criteria
    if start is not None:
        environment.set_state(start.initialization_data, start.initialization_actions, [])
    messages: list[Message] = []
    for place, action in enumerate((criteria and criteria.actions) or []):
        call = ToolCall(
            id=f"gold-{place}",
            name=action.name,
            arguments=action.arguments,
            requestor=action.requestor,
        )
        by_user = action.requestor == "user"
        kind, role = (UserMessage, "user") if by_user else (AssistantMessage, "assistant")
        messages += [kind(role=role, tool_calls=[call]), environment.get_response(call)]
        environment.sync_tools()
    told = (criteria and criteria.communicate_info) or []
    return messages + _said("; ".join(told) or "Done.")


def _said(text: str) -> list["Message"]:
    from tau2.data_model.message import AssistantMessage

    return [AssistantMessage(role="assistant", content=text)]


def _reward(task: "Task", domain: str, dialogue: list["Message"]) -> "RewardInfo":
    """tau2's own reward of a dialogue that the user ends."""
    from tau2.data_model.message import UserMessage
    from tau2.data_model.simulation import SimulationRun, TerminationReason
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

    run = SimulationRun(
        id=task.id,
        task_id=task.id,
        start_time=TIME,
        end_time=TIME,
        duration=0.0,
        termination_reason=TerminationReason.USER_STOP,
        messages=[UserMessage(role="user", content="Hello."), *dialogue],
    )
    environment = _environment(task, domain) or None
    kind = EvaluationType.ALL
    return evaluate_simulation(run, task, kind, False, domain, env_kwargs=environment)


if __name__ == "__main__":
    main(*sys.argv[1:])
