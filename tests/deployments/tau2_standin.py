"""Fakes of the parts of tau2's package and of LiteLLM that `tau2_episode` uses.

They have the real names and interfaces in a few lines: one domain whose tool `add` adds a number to
a sum; a dialogue of agent, user and tools; a reward of sum, communicated texts and a judge's
verdict. `test_tau2_real` runs the real packages. `Installed` is a Python that has the fakes.
"""

import json
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

STOP = "###STOP###"
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
}


def install_into(folder: Path) -> Path:
    """Write a Python program into `folder` that has the fake, and return its path."""
    packages = folder / "packages"
    metadata = packages / "tau2-1.0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tau2\nVersion: 1.0.1\n")
    (packages / "sitecustomize.py").write_text(
        "from tests.deployments.tau2_standin import install; install()\n"
    )
    root = Path(__file__).parents[2]
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages}:{root} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


class ContextWindowExceededError(Exception):
    """LiteLLM's error for a full context window."""


class Namespace(SimpleNamespace):
    """A message or a call; tau2's models have more fields."""

    tool_calls: Any = None
    content: Any = None

    def has_content(self) -> bool:
        """Return whether the message has text."""
        return bool(self.content)

    def is_tool_call(self) -> bool:
        """Return whether the message calls a tool."""
        return self.tool_calls is not None


def generate(
    model: str, messages: list[Any], tools: Any = None, call_name: str = "", **given: Any
) -> Any:
    """Make one call as tau2's `generate` does and return its message."""
    body = {"model": model.removeprefix("openai/"), "messages": [_sent(each) for each in messages]}
    body |= given.get("extra_body", {})
    if "seed" in given:
        body["seed"] = given["seed"]
    if tools:
        body["tools"] = [each.openai_schema for each in tools]
    headers = {"Content-Type": "application/json", **given.get("extra_headers", {})}
    url = f"{given['api_base']}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            message = json.load(answer)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        said = error.read().decode()
        raise (ContextWindowExceededError if "context" in said else RuntimeError)(said) from error
    calls = [
        Namespace(
            id=each["id"],
            name=each["function"]["name"],
            arguments=json.loads(each["function"]["arguments"]),
        )
        for each in message.get("tool_calls") or ()
    ]
    return Namespace(role="assistant", content=message.get("content"), tool_calls=calls or None)


def _sent(message: Any) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        sent["tool_call_id"] = message.id
    if message.tool_calls:
        sent["tool_calls"] = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.name, "arguments": json.dumps(each.arguments)},
            }
            for each in message.tool_calls
        ]
    return sent


class LLMAgent:
    def __init__(self, tools: Any, domain_policy: str, llm: str, llm_args: dict[str, Any]) -> None:
        self.tools, self.policy, self.llm, self.llm_args = tools, domain_policy, llm, llm_args

    def _generate_next_message(self, message: Any, state: Any) -> Any:
        state.messages.append(message)
        messages = state.system_messages + state.messages
        return generate(self.llm, messages, self.tools, "agent_response", **self.llm_args)

    def next_message(self, message: Any, state: Any) -> Any:
        """Return the next message with the interface of tau2's orchestrator."""
        reply = self._generate_next_message(message, state)
        state.messages.append(reply)
        return reply


class Reason(Enum):
    """Reason for the end of a dialogue."""

    USER_STOP = "user_stop"
    MAX_STEPS = "max_steps"


@dataclass(frozen=True)
class RewardType:
    value: str


class Dialogue:
    """Orchestrator as tau2's: the user begins and ends the dialogue."""

    def __init__(self, config: Any, task: Any, agent: Any) -> None:
        self.config, self.task, self.agent, self.total = config, task, agent, 0
        self.said: list[Any] = []
        agent.llm_args["seed"] = config.seed
        self.environment = SimpleNamespace(get_policy=lambda: "Be quick.")

    def get_trajectory(self) -> list[Any]:
        """Return the messages so far."""
        return self.said

    def run(self) -> Any:
        system = Namespace(role="system", content="Be quick.")
        state = SimpleNamespace(system_messages=[system], messages=[])
        told = Namespace(role="system", content=self.task.scenario)
        asked: list[Any] = [Namespace(role="user", content="Hi! How can I help you?")]
        for _ in range(self.config.max_steps):
            given = self.config.llm_args_user
            words = generate(self.config.llm_user, [told, *asked], **given)
            asked.append(words)
            message = Namespace(role="user", content=words.content)
            self.said.append(message)
            if STOP in message.content:
                return self._ended(Reason.USER_STOP)
            reply = self._until_it_speaks(message, state)
            asked.append(Namespace(role="user", content=reply.content))
        return self._ended(Reason.MAX_STEPS)

    def _until_it_speaks(self, message: Any, state: Any) -> Any:
        reply = self.agent.next_message(message, state)
        self.said.append(reply)
        while reply.tool_calls:
            for call in reply.tool_calls[1:]:
                state.messages.append(self._used(call))
            reply = self.agent.next_message(self._used(reply.tool_calls[0]), state)
            self.said.append(reply)
        return reply

    def _used(self, call: Any) -> Any:
        self.total += call.arguments["n"]
        return Namespace(role="tool", id=call.id, content=str(self.total))

    def _ended(self, reason: Reason) -> Any:
        return SimpleNamespace(
            messages=self.said, termination_reason=reason, total=self.total, policy=""
        )


def evaluate_simulation(run: Any, task: Any, *_: Any, **__: Any) -> Any:
    """Return tau2's reward: the product of its parts."""
    if run.termination_reason is not Reason.USER_STOP:
        return _info(0.0, {}, note="Simulation terminated prematurely.")
    criteria = task.evaluation_criteria
    gold = sum(each["arguments"]["n"] for each in criteria["actions"])
    parts = {"DB": float(run.total == gold)}
    said = " ".join(each.content or "" for each in run.messages if each.role == "assistant")
    parts["COMMUNICATE"] = float(all(each in said for each in criteria["communicate_info"]))
    if criteria.get("nl_assertions"):
        judging = sys.modules["tau2.evaluator.evaluator_nl_assertions"]
        messages = [
            Namespace(role="system", content="TASK"),
            Namespace(role="user", content=str(criteria["nl_assertions"])),
        ]
        verdict = generate(
            judging.DEFAULT_LLM_NL_ASSERTIONS, messages, **judging.DEFAULT_LLM_NL_ASSERTIONS_ARGS
        )
        met = all(each["metExpectation"] for each in json.loads(verdict.content)["results"])
        parts["NL_ASSERTION"] = float(met)
    reward = 1.0
    for part in parts.values():
        reward *= part
    return _info(reward, parts)


def _info(reward: float, parts: dict[str, float], note: str = "") -> Any:
    return SimpleNamespace(
        reward=reward,
        reward_basis=[RewardType(name) for name in parts],
        reward_breakdown={RewardType(name): part for name, part in parts.items()},
        db_check=None,
        action_checks=None,
        communicate_checks=None,
        env_assertions=None,
        nl_assertions=None,
        info={"note": note} if note else None,
    )


def install() -> None:
    """Register the fakes as importable modules."""

    class Task:
        @staticmethod
        def model_validate(row: dict[str, Any]) -> Any:
            scenario = row["user_scenario"]["instructions"]
            return SimpleNamespace(**row, scenario=scenario)

    factories: dict[str, Any] = {}

    def build(config: Any, task: Any, seed: int) -> Dialogue:
        add = SimpleNamespace(name="add", openai_schema=ADD)
        given = {"llm": config.llm_agent, "llm_args": config.llm_args_agent}
        made = factories[config.agent](tools=[add], domain_policy="Be quick.", task=task, **given)
        return Dialogue(config, task, made)

    registry = SimpleNamespace(
        register_agent_factory=lambda factory, name: factories.update({name: factory})
    )
    modules: dict[str, dict[str, Any]] = {
        "litellm": {"ContextWindowExceededError": ContextWindowExceededError},
        "loguru": {"logger": SimpleNamespace(remove=lambda: None)},
        "tau2.agent.llm_agent": {"LLMAgent": LLMAgent},
        "tau2.data_model.message": {
            "AssistantMessage": Namespace,
            "Message": Namespace,
            "ToolCall": Namespace,
            "ToolMessage": Namespace,
        },
        "tau2.data_model.tasks": {"Task": Task},
        "tau2.data_model.simulation": {"TextRunConfig": SimpleNamespace},
        "tau2.evaluator.evaluator": {
            "EvaluationType": SimpleNamespace(ALL="all"),
            "evaluate_simulation": evaluate_simulation,
        },
        "tau2.evaluator.evaluator_nl_assertions": {},
        "tau2.registry": {"registry": registry},
        "tau2.runner.build": {
            "_build_env_kwargs": lambda config, task: {},
            "build_text_orchestrator": build,
        },
        "tau2.utils.llm_utils": {"generate": generate},
    }
    for name, content in modules.items():
        parts = name.split(".")
        for place in range(1, len(parts) + 1):
            path = ".".join(parts[:place])
            made = sys.modules.setdefault(path, ModuleType(path))
            made.__path__ = []
            if place > 1:
                setattr(sys.modules[".".join(parts[: place - 1])], parts[place - 1], made)
        vars(sys.modules[name]).update(content)
