"""Agent with OpenAI's client in a loop, for chat completions and the Responses API."""

import json
from typing import Any

from openai import OpenAI

from tests.serving.gateway.recording.agents.conversation import (
    QUESTION,
    SCHEMAS,
    SYSTEM,
    TOOLS,
    Message,
    answered,
    main,
    result,
    said,
)


def chat(client: OpenAI, stream: bool) -> list[Message]:
    """Run the agent with chat completions; each response is sent back as the library serialises
    it."""
    tools = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in SCHEMAS.items()
    ]
    history: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    seen = [said("system", SYSTEM), said("user", QUESTION)]
    while True:
        fields: Any = {"model": "m", "messages": history, "tools": tools}
        if stream:
            with client.chat.completions.stream(**fields) as events:
                answer: Any = events.get_final_completion().choices[0].message
        else:
            answer = client.chat.completions.create(**fields).choices[0].message
        calls = [(c.id, c.function.name, c.function.arguments) for c in answer.tool_calls or ()]
        thought = getattr(answer, "reasoning_content", None)
        seen.append(answered(answer.content, calls, thought))
        if not calls:
            return seen
        history.append(answer)
        for call_id, name, given in calls:
            text = TOOLS[name](**json.loads(given))
            history.append({"role": "tool", "tool_call_id": call_id, "content": text})
            seen.append(result(call_id, text))


def responses(client: OpenAI, stream: bool) -> list[Message]:
    tools = [
        {"type": "function", "name": name, "parameters": schema, "strict": False}
        for name, schema in SCHEMAS.items()
    ]
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    seen = [said("system", SYSTEM), said("user", QUESTION)]
    while True:
        fields: Any = {"model": "m", "instructions": SYSTEM, "input": history, "tools": tools}
        if stream:
            *_, last = client.responses.create(**fields, stream=True)
            answer = last.response
        else:
            answer = client.responses.create(**fields)
        items = [item for item in answer.output if item.type == "function_call"]
        calls = [(item.call_id, item.name, item.arguments) for item in items]
        thoughts = [item.content[0].text for item in answer.output if item.type == "reasoning"]
        seen.append(answered(answer.output_text, calls, "".join(thoughts)))
        if not calls:
            return seen
        history += answer.output
        for call_id, name, given in calls:
            text = TOOLS[name](**json.loads(given))
            output = {"type": "function_call_output", "call_id": call_id, "output": text}
            history.append(output)
            seen.append(result(call_id, text))


def run(url: str, protocol: str, stream: bool) -> list[Message]:
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        return (responses if protocol == "responses" else chat)(client, stream)


if __name__ == "__main__":
    main(run)
