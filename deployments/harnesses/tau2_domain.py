"""A synthesized domain checked by tau2-bench's own package, run by a Python that has it (3.12).

In: the folder that `write_tau2_folder` wrote, and the domain's name there. Out: the last line,
JSON: how many tasks tau2 loads and validates, whose golden actions its tools carry out to the
expected state hash, whose scripted dialogues its evaluator rewards with 1 (golden actions) and 0
(nothing done); and what differs. Nothing is asked of a model.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network

import tau2.domains
from loguru import logger
from tau2.data_model.message import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from tau2.data_model.simulation import SimulationRun, TerminationReason
from tau2.data_model.tasks import Task
from tau2.environment.environment import Environment
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.registry import registry

TIME = "2025-01-01T00:00:00"
SHOWN = 20  # differences that are named


def main(folder: str, name: str) -> None:
    """Check the domain and print what was found."""
    logger.remove()
    tau2.domains.__path__.append(str(Path(folder) / "src/tau2/domains"))
    importlib.import_module(f"tau2.domains.{name}.register").register()
    data = Path(folder) / "data/tau2/domains" / name
    expected: dict[str, str] = json.loads((data / "expected.json").read_text())
    tasks: list[Task] = registry.get_tasks_loader(name)(None)
    splits = registry.get_task_splits_loader(name)
    assert splits is not None, "registered with its splits"
    environment = registry.get_env_constructor(name)()
    found: dict[str, Any] = {
        "tasks": len(expected),
        "loaded": len(tasks),
        "in_base": len(registry.get_tasks_loader(name)("base")),
        "splits": {split: len(ids) for split, ids in splits().items()},
        "tools": [tool.openai_schema["function"]["name"] for tool in environment.get_tools()],
        "hashes_equal": 0,
        "golden_rewarded": 0,
        "idle_unrewarded": 0,
        "differences": [],
    }
    for task in tasks:
        _check(task, name, expected[task.id], found)
    found["differences"] = found["differences"][:SHOWN]
    print(json.dumps(found))


def _check(task: Task, name: str, expected: str, found: dict[str, Any]) -> None:
    environment = _begun(task, name)
    golden = _golden(task, environment)
    state = environment.get_db_hash()
    errors = [each.content for each in golden if isinstance(each, ToolMessage) and each.error]
    rewards = _reward(task, name, golden), _reward(task, name, _said("I cannot help you."))
    outcomes = {
        "hashes_equal": state == expected and not errors,
        "golden_rewarded": rewards[0] == 1.0,
        "idle_unrewarded": rewards[1] == 0.0,
    }
    for outcome, holds in outcomes.items():
        found[outcome] += holds
        if not holds:
            seen = {"state": state, "expected": expected, "errors": errors, "rewards": rewards}
            found["differences"].append({"task": task.id, "not": outcome, **seen})


def _begun(task: Task, name: str) -> Environment:
    """An environment in the task's initial state."""
    environment = registry.get_env_constructor(name)()
    data = None if task.initial_state is None else task.initial_state.initialization_data
    environment.set_state(data, None, [])
    return environment


def _golden(task: Task, environment: Environment) -> list[Message]:
    """A dialogue that makes the golden calls, then says what must be said."""
    criteria = task.evaluation_criteria
    assert criteria is not None, f"{task.id} was written with its criteria"
    messages: list[Message] = []
    for action in criteria.actions or []:
        call = ToolCall(
            id=action.action_id,
            name=action.name,
            arguments=action.arguments,
            requestor=action.requestor,
        )
        messages.append(AssistantMessage(role="assistant", tool_calls=[call]))
        messages.append(environment.get_response(call))
    return messages + _said("; ".join(criteria.communicate_info or []) or "Done.")


def _said(text: str) -> list[Message]:
    return [AssistantMessage(role="assistant", content=text)]


def _reward(task: Task, name: str, dialogue: list[Message]) -> float:
    """tau2's own reward of a dialogue that the user ends."""
    messages = [UserMessage(role="user", content="Hello."), *dialogue]
    run = SimulationRun(
        id=task.id,
        task_id=task.id,
        start_time=TIME,
        end_time=TIME,
        duration=0.0,
        termination_reason=TerminationReason.USER_STOP,
        messages=messages,
    )
    return float(evaluate_simulation(run, task, EvaluationType.ALL, False, name).reward)


if __name__ == "__main__":
    main(*sys.argv[1:])
