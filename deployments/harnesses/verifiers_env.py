"""One task of a verifiers taskset: a suite's `command`, run by a Python that has verifiers.

In: a taskset (a module's file, or the name of one that is installed), and the file of its data
where its configuration takes one as ``data``; the environment that `command` gives. The task is the
one that has the item's id. It is played by verifiers' ``null`` harness, a chat loop that carries
out nothing: code that a model writes runs in tutti's sandbox only. Out: the last line, with
verifiers' own reward and count of tokens.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers import __version__
from verifiers.v1.env import RunSlot
from verifiers.v1.utils.loaders import load_environment, resolve_env_config


async def play(taskset: dict[str, Any], asked: dict[str, Any]) -> vf.Trace[Any, Any, Any]:
    """The trace of the task asked for. Ends the process where verifiers reports an error."""
    agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    env = load_environment(resolve_env_config({"taskset": taskset, "agent": agent}))
    (task,) = env.taskset.include(ids=[asked["id"]])
    context = vf.ModelContext(
        model=os.environ["TUTTI_MODEL"],
        client=vf.EvalClientConfig(
            base_url=os.environ["OPENAI_BASE_URL"], api_key_var="OPENAI_API_KEY"
        ),
        sampling=vf.SamplingConfig(
            max_tokens=asked["max_tokens"],
            temperature=asked["temperature"],
            seed=int(os.environ["TUTTI_SEED"]),
        ),
    )
    async with env.serving():
        episode = await env.run_slot(RunSlot(task), context)
    if not episode.ok:
        errors = [*episode.errors, *(e for trace in episode.traces for e in trace.errors)]
        sys.exit("; ".join(f"{error.type}: {error.message}" for error in errors) or "no trace")
    return episode.traces[0]


def result(trace: vf.Trace[Any, Any, Any]) -> dict[str, Any]:
    """What the last line says."""
    used = [call.usage for call in trace.calls if call.usage is not None]
    rewards = {name: reward and reward.value for name, reward in trace.rewards.items()}
    cached = sum(usage.cached_input_tokens or 0 for usage in used)
    return {
        "answer": trace.assistant_messages[-1].content,
        "score": trace.reward,
        "scorer": "verifiers/" + "+".join(rewards),
        "version": __version__,
        "detail": {
            "scores": rewards,
            "prompt_tokens": cached + sum(usage.prompt_tokens for usage in used),
            "completion_tokens": sum(usage.completion_tokens for usage in used),
        },
    }


def main(name: str, data: str | None = None) -> None:
    """Play the task and print its result."""
    asked = json.loads(Path(os.environ["TUTTI_TASK"]).read_text())
    # Its chat loop is a script with packages of its own, which the uv beside this Python installs.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if name.endswith(".py"):
        sys.path.insert(0, str(Path(name).parent))
        name = Path(name).stem
    taskset = {"id": name} if data is None else {"id": name, "data": data}
    print(json.dumps(result(asyncio.run(play(taskset, asked)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
