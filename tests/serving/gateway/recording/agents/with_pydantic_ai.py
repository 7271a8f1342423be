"""Agent with Pydantic AI and its models for the three protocols."""

import asyncio
from collections.abc import AsyncIterable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.serving.gateway.recording.agents.conversation import (
    QUESTION,
    SYSTEM,
    TOOLS,
    Message,
    answered,
    main,
    result,
    said,
)


def model_of(url: str, protocol: str) -> Any:
    if protocol == "messages":
        return AnthropicModel("m", provider=AnthropicProvider(base_url=url, api_key="none"))
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    return (OpenAIResponsesModel if protocol == "responses" else OpenAIChatModel)(
        "m", provider=provider
    )


async def read(_: Any, events: AsyncIterable[Any]) -> None:
    async for _event in events:
        pass


def run(url: str, protocol: str, stream: bool) -> list[Message]:
    agent = Agent(model_of(url, protocol), system_prompt=SYSTEM, tools=list(TOOLS.values()))
    done: Any = asyncio.run(agent.run(QUESTION, event_stream_handler=read if stream else None))
    return [each for message in done.all_messages() for each in read_message(message)]


def read_message(message: Any) -> list[Message]:
    if message.kind == "response":
        parts = {kind: [p for p in message.parts if p.part_kind == kind] for kind in
                 ("text", "thinking", "tool-call")}  # fmt: skip
        calls = [(part.tool_call_id, part.tool_name, part.args) for part in parts["tool-call"]]
        thought = "".join(part.content for part in parts["thinking"])
        return [answered("".join(part.content for part in parts["text"]), calls, thought)]
    roles = {"system-prompt": "system", "user-prompt": "user"}
    return [
        result(part.tool_call_id, part.content)
        if part.part_kind == "tool-return"
        else said(roles[part.part_kind], part.content)
        for part in message.parts
    ]


if __name__ == "__main__":
    main(run)
