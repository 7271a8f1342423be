"""Agent with mini-swe-agent, whose only tool is bash and which does not stream."""

import os
from typing import Any

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_response_model import LitellmResponseModel

from tests.serving.gateway.recording.agents.conversation import (
    QUESTION,
    SYSTEM,
    Message,
    answered,
    main,
    result,
    said,
)


def model_of(url: str, protocol: str) -> Any:
    options = {"api_key": "none", "num_retries": 0}
    if protocol == "messages":
        name, options = "anthropic/m", options | {"api_base": url}
    else:
        name, options = "openai/m", options | {"api_base": f"{url}/v1"}
    kind = LitellmResponseModel if protocol == "responses" else LitellmModel
    return kind(model_name=name, model_kwargs=options, cost_tracking="ignore_errors")


def run(url: str, protocol: str, stream: bool) -> list[Message]:
    os.environ["MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"] = "1"
    agent = DefaultAgent(
        model_of(url, protocol),
        LocalEnvironment(),
        system_template=SYSTEM,
        instance_template="{{task}}",
    )
    agent.run(QUESTION)
    return [read_message(each) for each in agent.messages if each.get("role") != "exit"]


def read_message(message: dict[str, Any]) -> Message:
    if message.get("object") == "response":
        return read_response(message["output"])
    if message.get("type") == "function_call_output":
        return result(message["call_id"], message["output"])
    if message["role"] == "tool":
        return result(message["tool_call_id"], message["content"])
    if message["role"] != "assistant":
        return said(message["role"], message["content"])
    functions = [(call["id"], call["function"]) for call in message["tool_calls"] or ()]
    calls = [(call_id, each["name"], each["arguments"]) for call_id, each in functions]
    return answered(message["content"], calls, message.get("reasoning_content"))


def read_response(items: list[dict[str, Any]]) -> Message:
    texts = [
        part["text"] for item in items if item["type"] == "message" for part in item["content"]
    ]
    called = [item for item in items if item["type"] == "function_call"]
    calls = [(item["call_id"], item["name"], item["arguments"]) for item in called]
    return answered("".join(texts), calls)


if __name__ == "__main__":
    main(run)
