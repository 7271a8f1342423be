"""Writes genuine Inspect logs with a mock model: ``python inspect_logs.py FOLDER``.

It runs in its own process because evaluations start threads and configure logging. The mock model's
outputs include their usage, because counting tokens would load a tokenizer from the network.
"""

import sys
from collections.abc import Iterator
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, match, mean, scorer
from inspect_ai.solver import (
    Generate,
    Solver,
    TaskState,
    generate,
    solver,
    system_message,
    use_tools,
)
from inspect_ai.tool import Tool, ToolError, tool


@tool  # type: ignore[untyped-decorator]
def add() -> Tool:
    async def execute(x: int, y: int) -> str:
        """Add.

        Args:
          x: a number
          y: another
        """
        if x < 0:
            raise ToolError("x is negative")
        return str(x + y)

    return execute


@scorer(metrics={"style": [mean()], "length": [mean()]})  # type: ignore[untyped-decorator]
def several() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value={"style": 0.5, "length": 1}, explanation="because")

    return score


@scorer(metrics=[mean()])  # type: ignore[untyped-decorator]
def unscored() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score.unscored(reason="grader_failed")

    return score


@solver  # type: ignore[untyped-decorator]
def fail_at(bad: str) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.sample_id == bad:
            raise RuntimeError("the disk is gone")
        return state

    return solve


def outputs(x: int = 1) -> Iterator[ModelOutput]:
    while True:
        call = ModelOutput.for_tool_call("mockllm/model", "add", {"y": 2, "x": x}, content="I add")
        answer = ModelOutput.from_content("mockllm/model", "3")
        for output in (call, answer):
            output.usage = ModelUsage(
                input_tokens=6, input_tokens_cache_read=4, output_tokens=3, total_tokens=13
            )
            yield output


def run(folder: str, task: Task, x: int = 1, **options: Any) -> None:
    model = get_model("mockllm/model", custom_outputs=outputs(x), memoize=False)
    eval(task, model=model, log_dir=folder, display="none", max_samples=1, **options)


def main(folder: str) -> None:
    samples = [Sample(id="s1", input="1+2?", target="3"), Sample(id=2, input="2+2?", target="4")]
    plain = [system_message("be brief"), use_tools(add()), generate()]
    scorers = [match(), several(), unscored()]
    run(folder, Task(name="adder", dataset=samples, solver=plain, scorer=scorers, epochs=2))
    retried = [fail_at("s1"), use_tools(add()), generate()]
    task = Task(name="failing", dataset=samples, solver=retried, scorer=match())
    run(folder, task, fail_on_error=False, retry_on_error=1)
    task = Task(name="limited", dataset=samples[:1], solver=plain, scorer=match(), message_limit=4)
    run(folder, task)
    task = Task(name="broken-tool", dataset=samples[:1], solver=plain, scorer=match())
    run(folder, task, x=-1, log_format="json")


if __name__ == "__main__":
    main(sys.argv[1])
