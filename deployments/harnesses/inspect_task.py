"""One sample of an Inspect task: a suite's `command`, run by a Python that has inspect-ai.

In: a task (a file of one, or a name such as ``inspect_evals/gsm8k``), and the file of its data
where it takes one as its argument ``data``; the environment that `command` gives. The sample is the
one that has the item's id. Out: the last line, with Inspect's own score and count of tokens.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import inspect_ai
from inspect_ai.log import EvalSample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import value_to_float

RETRIES = 0  # the sweep tries again, and knows why


def main(task: str, data: str | None = None) -> None:
    """Evaluate the sample and print its result. Ends the process where Inspect reports an error."""
    asked = json.loads(Path(os.environ["TUTTI_TASK"]).read_text())
    config = GenerateConfig(
        max_tokens=asked["max_tokens"],
        temperature=asked["temperature"],
        seed=int(os.environ["TUTTI_SEED"]),
        max_retries=RETRIES,
    )
    model = get_model(f"openai/{os.environ['TUTTI_MODEL']}", config=config, responses_api=False)
    logs = Path("logs").absolute()
    if task.endswith(".py"):  # which it takes by a relative path only
        os.chdir(Path(task).parent)
        task = Path(task).name
    (log,) = inspect_ai.eval(
        task,
        model=model,
        task_args={} if data is None else {"data": data},
        sample_id=asked["id"],
        display="none",
        log_dir=str(logs),
    )
    if log.status != "success" or not log.samples:
        sys.exit(f"{log.status}: {log.error.message if log.error else 'no such sample'}")
    print(json.dumps(result(log.samples[0])))


def result(sample: EvalSample) -> dict[str, Any]:
    """What the last line says; a score is Inspect's first one, where that is a single value."""
    scores = sample.scores or {}
    detail = {name: {"value": s.value, "explanation": s.explanation} for name, s in scores.items()}
    used = list(sample.model_usage.values())
    cached = sum((usage.input_tokens_cache_read or 0) for usage in used)
    found: dict[str, Any] = {
        "answer": sample.output.completion,
        "version": inspect_ai.__version__,
        "detail": {
            "scores": detail,
            "prompt_tokens": cached + sum(usage.input_tokens for usage in used),
            "completion_tokens": sum(usage.output_tokens for usage in used),
        },
    }
    for name, score in scores.items():
        if isinstance(score.value, str | int | float):
            found |= {"score": value_to_float()(score.value), "scorer": f"inspect/{name}"}
            found["answer"] = score.answer or found["answer"]
            break
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
