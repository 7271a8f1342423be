"""Agents of Smolagents: one calls tools (protocol `chat`), the other writes code (`code`)."""

from typing import Any

from smolagents import CodeAgent, LogLevel, OpenAIModel, ToolCallingAgent, tool

from tests.serving.gateway.recording.agents.conversation import (
    QUESTION,
    TOOLS,
    Message,
    answered,
    main,
    said,
)


def run(url: str, protocol: str, stream: bool) -> list[Message]:
    model = OpenAIModel("m", api_base=f"{url}/v1", api_key="none", client_kwargs={"max_retries": 0})
    agent = (CodeAgent if protocol == "code" else ToolCallingAgent)(
        tools=[tool(each) for each in TOOLS.values()],
        model=model,
        stream_outputs=stream,
        verbosity_level=LogLevel.OFF,
        max_steps=5,
    )
    agent.run(QUESTION)
    memory: Any = agent.memory
    task, *steps = memory.steps
    seen = [said("system", memory.system_prompt.system_prompt)]
    seen += [said("user", f"New task:\n{task.task}")]
    for step in steps:
        answer = step.model_output_message
        calls = [(c.id, c.function.name, c.function.arguments) for c in answer.tool_calls or ()]
        text = (answer.content or "").removesuffix("</code>")  # which the agent adds
        seen.append(answered(text, calls))
        if not step.is_final_answer:
            seen.append(said("user", f"Observation:\n{step.observations}"))
    return seen


if __name__ == "__main__":
    main(run)
