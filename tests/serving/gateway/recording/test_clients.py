"""Tests that the transcript equals the conversation of the client, with real client libraries and
every protocol, with tools.

Each agent sends its whole conversation again with every call, in the format of its library: with
other spaces, nulls and lists of parts. No message may be stored twice.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.serving.conftest import Bench
from tests.serving.gateway.recording import scripted
from tests.serving.gateway.recording.scripted import CALL_ID, LAST, THOUGHT, WORDS

ADD: dict[str, Any] = {"name": "add", "parameters": {"type": "object", "properties": {}}}
CLAUDE: Any = {"name": "add", "input_schema": ADD["parameters"]}
QUESTION, SYSTEM = "1 + 2?", "Be brief."
Seen = list[tuple[Any, ...]]
"""What a client saw of each assistant's turn: text, name and arguments of its call."""


def again(arguments: Any) -> str:
    return json.dumps(dict(reversed(arguments.items())), indent=1)


def chat_agent(url: str, stream: bool) -> Seen:
    """Run an agent with OpenAI's chat; the response is sent back as the library serialises it."""
    history: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    seen: Seen = []
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        for _ in range(2):
            fields: Any = {"model": "m", "messages": history}
            fields["tools"] = [{"type": "function", "function": ADD}]
            if stream:
                with client.chat.completions.stream(**fields) as events:
                    said = events.get_final_completion().choices[0].message
            else:
                said = client.chat.completions.create(**fields).choices[0].message
            seen.append((said.content, *_called(said.tool_calls)))
            message = said.model_dump()
            message["content"] = [{"type": "text", "text": said.content}]
            for call in message["tool_calls"] or ():
                call["function"]["arguments"] = again(json.loads(call["function"]["arguments"]))
            result = {"role": "tool", "tool_call_id": CALL_ID, "content": "3"}
            history = [*history, message, result]
    return seen


def _called(calls: Any) -> list[Any]:
    found = [(call.function.name, json.loads(call.function.arguments)) for call in calls or ()]
    return [each for call in found for each in call]


def claude_agent(url: str, stream: bool) -> Seen:
    """Run an agent with Anthropic's messages; the cache marker moves with every call."""
    history: list[Any] = []
    given: Any = QUESTION
    seen: Seen = []
    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        for _ in range(2):
            part = {"type": "text", "text": given} if isinstance(given, str) else given
            marked = [part | {"cache_control": {"type": "ephemeral"}}]
            asked = [*history, {"role": "user", "content": marked}]
            fields: Any = {"model": "m", "max_tokens": 9, "system": SYSTEM, "messages": asked}
            if stream:
                with client.messages.stream(**fields, tools=[CLAUDE]) as events:
                    said = events.get_final_message()
            else:
                said = client.messages.create(**fields, tools=[CLAUDE])
            blocks = [block.model_dump() for block in said.content]
            text = "".join(block.get("text", "") for block in blocks)
            uses = [block for block in blocks if block["type"] == "tool_use"]
            seen.append((text, *[each for use in uses for each in (use["name"], use["input"])]))
            history.append({"role": "user", "content": [part]})
            history.append({"role": "assistant", "content": blocks})
            given = {"type": "tool_result", "tool_use_id": CALL_ID, "content": "3"}
    return seen


def responses_agent(url: str, stream: bool, kept: bool = False) -> Seen:
    """Run an agent with the Responses API, with all items sent again or, if `kept`, with the id of
    the last response."""
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    seen: Seen = []
    more: dict[str, Any] = {}
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        for _ in range(2):
            fields: Any = {"model": "m", "instructions": SYSTEM, "input": history, **more}
            fields["tools"] = [{"type": "function", **ADD}]
            if stream:
                *_, last = client.responses.create(**fields, stream=True)
                said = last.response
            else:
                said = client.responses.create(**fields)
            items = [item.model_dump() for item in said.output]
            calls = [item for item in items if item["type"] == "function_call"]
            seen.append((said.output_text, *[x for c in calls for x in _parsed(c)]))
            for call in calls:
                call["arguments"] = again(json.loads(call["arguments"]))
            result = {"type": "function_call_output", "call_id": CALL_ID, "output": "3"}
            history = [result] if kept else [*history, *items, result]
            more = {"previous_response_id": said.id} if kept else {}
    return seen


def _parsed(call: dict[str, Any]) -> tuple[Any, Any]:
    return call["name"], json.loads(call["arguments"])


def kept_agent(url: str, stream: bool) -> Seen:
    return responses_agent(url, stream, kept=True)


Agent = Callable[[str, bool], Seen]
AGENTS: list[tuple[Agent, Callable[[], Any]]] = [
    (chat_agent, scripted.Chat),
    (claude_agent, scripted.Messages),
    (responses_agent, scripted.Responses),
    (kept_agent, scripted.Responses),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("agent", "engine"), AGENTS, ids=[a.__name__ for a, _ in AGENTS])
async def test_the_transcript_is_what_the_client_saw(
    raw: Bench, agent: Agent, engine: Callable[[], Any], stream: bool
) -> None:
    """Five messages are stored once each, each call's prompt is returned whole, and calls are
    numbered."""
    raw.engine.reply = engine()
    url = f"http://127.0.0.1:{raw.gateway.server.port}/p/agent"
    seen = await asyncio.to_thread(agent, url, stream)
    assert seen == [(WORDS, "add", {"a": 1, "b": 2.0}), (LAST,)]
    rows = await raw.rows("select * from transcript('agent')")
    called = [
        (row["content"], *[x for call in row["tool_calls"] for x in _parsed(call)])
        for row in rows
        if row["role"] == "assistant"
    ]
    assert called == seen
    assert [(row["role"], row["content"]) for row in rows] == [
        ("system", SYSTEM), ("user", QUESTION), ("assistant", WORDS), ("tool", "3"),
        ("assistant", LAST),
    ]  # fmt: skip
    assert (rows[2]["reasoning"], rows[2]["tool_calls"][0]["id"]) == (THOUGHT, CALL_ID)
    assert rows[3]["tool_call_id"] == CALL_ID
    first, second = await raw.calls()
    assert (first["step"], second["step"]) == (1, 2)
    assert [rows[2]["call_id"], rows[4]["call_id"]] == [first["call_id"], second["call_id"]]
    sql = f"select role, content from prompt('{second['call_id']}')"
    assert [row["content"] for row in await raw.rows(sql)] == [SYSTEM, QUESTION, WORDS, "3"]
