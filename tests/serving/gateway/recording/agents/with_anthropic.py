"""Agent with Anthropic's client and its own loop, the tool runner.

In the protocol `threads` the server keeps the conversation, which is the tool runner's default.
"""

from typing import Any

from anthropic import Anthropic, beta_tool

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


def run(url: str, protocol: str, stream: bool) -> list[Message]:
    seen = [said("system", SYSTEM), said("user", QUESTION)]
    tools: Any = [beta_tool(each) for each in TOOLS.values()]
    fields: Any = {"model": "m", "max_tokens": 99, "system": SYSTEM, "stream": stream}
    fields |= {} if protocol == "threads" else {"thread": False}
    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        runner: Any = client.beta.messages.tool_runner(
            **fields, tools=tools, messages=[{"role": "user", "content": QUESTION}]
        )
        for turn in runner:
            answer = turn.get_final_message() if stream else turn
            seen.append(read_answer(answer))
            for block in (runner.generate_tool_call_response() or {}).get("content", ()):
                content = block["content"]
                text = content if isinstance(content, str) else content[0]["text"]
                seen.append(result(block["tool_use_id"], text))
    return seen


def read_answer(answer: Any) -> Message:
    blocks = answer.content
    calls = [(each.id, each.name, each.input) for each in blocks if each.type == "tool_use"]
    thoughts = [each.thinking for each in blocks if each.type == "thinking"]
    texts = [each.text for each in blocks if each.type == "text"]
    return answered("".join(texts), calls, "".join(thoughts))


if __name__ == "__main__":
    main(run)
