"""The peer Inspect: the same trajectories through a real `inspect_ai.eval`, and its log writer.

A model that answers from a table says what the trajectories say, a tool returns their results; so
the log is what an Inspect run leaves, its events included. Absent where inspect_ai is not there.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import seconds_of
from bench.store.data import Trajectory


@dataclass
class InspectLog:
    """The log of the trajectories as Inspect wrote it."""

    path: Path
    seconds: float
    """Duration of the whole run; the models answered immediately."""
    log: Any

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.path.stat().st_size


def available() -> bool:
    """Whether inspect_ai is installed."""
    try:
        import inspect_ai  # noqa: F401
    except ImportError:
        return False
    return True


def run_inspect(folder: Path, given: Sequence[Trajectory]) -> InspectLog:
    """Run the trajectories as samples of one task; `folder` gets the log."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, use_tools

    logging.getLogger("inspect_ai").setLevel(logging.ERROR)
    samples = [
        Sample(input=each.messages[0]["content"], target=each.rows["attempts"][0]["answer"], id=n)
        for n, each in enumerate(given)
    ]
    solver = [use_tools(_search(given)), generate(tool_calls="loop")]
    task = Task(dataset=samples, solver=solver, scorer=includes(), name="made-up")
    model = get_model("mockllm/model", custom_outputs=_Answers(given))
    logs: list[Any] = []
    seconds = seconds_of(
        lambda: logs.extend(
            eval(task, model=model, log_dir=str(folder), display="none", max_samples=64)
        )
    )
    log = logs[0]
    assert log.status == "success", f"the Inspect run ended in {log.status}: {log.error}"
    assert len(log.samples[0].messages) == len(given[0].messages), "the conversation is another"
    return InspectLog(Path(log.location), seconds, log)


def write_again(found: InspectLog, path: Path, *, events: bool) -> float:
    """Seconds that Inspect's own writer takes for the log, with or without the samples' events."""
    from inspect_ai.log import write_eval_log

    log = found.log
    if not events:
        bare = [each.model_copy(update={"events": [], "attachments": {}}) for each in log.samples]
        log = log.model_copy(update={"samples": bare})
    return seconds_of(lambda: write_eval_log(log, path))


class _Answers:
    """The model's next message, chosen by the conversation so far."""

    def __init__(self, given: Sequence[Trajectory]) -> None:
        self.by_question = {each.messages[0]["content"]: each for each in given}
        assert len(self.by_question) == len(given), "two trajectories share their question"

    def __call__(self, input: list[Any], tools: Any, tool_choice: Any, config: Any) -> Any:
        from inspect_ai.model import ModelOutput, ModelUsage
        from inspect_ai.tool import ToolCall

        trajectory = self.by_question[input[0].content]
        turn = sum(message.role == "assistant" for message in input)
        said, call = trajectory.messages[2 * turn + 1], trajectory.rows["calls"][turn]
        output = ModelOutput.from_content("mockllm/model", said["content"])
        for asked in said["tool_calls"]:
            output.choices[0].stop_reason = "tool_calls"
            arguments = json.loads(asked["arguments"])
            made = ToolCall(id=asked["id"], function=asked["name"], arguments=arguments)
            output.choices[0].message.tool_calls = [made]
        read, written = call["prompt_tokens"], call["completion_tokens"]
        output.usage = ModelUsage(
            input_tokens=read, output_tokens=written, total_tokens=read + written
        )
        return output


def _search(given: Sequence[Trajectory]) -> Any:
    from inspect_ai.tool import tool

    results = {}
    for each in given:
        for asking, answering in zip(each.messages[1::2], each.messages[2::2], strict=False):
            query = json.loads(asking["tool_calls"][0]["arguments"])["query"]
            results[query] = answering["content"]

    def search() -> Any:
        async def execute(query: str) -> str:
            """Search the documents.

            Args:
                query: What to look for.
            """
            return str(results[query])

        return execute

    return tool(search)()
