"""One document of an lm-eval task: a suite's `command`, run by a Python that has lm-eval[api].

In: a task that generates (a YAML file, or a name such as ``gsm8k``), and for a YAML file the JSONL
file of its documents; the environment that `command` gives. The item's id is the document's number,
from 0. Out: the last line, with lm-eval's own score. It does not count tokens.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

ATTEMPTS = 1  # the sweep tries again, and knows why


def main(task: str, data: str | None = None) -> None:
    """Evaluate the document and print its result. Raises what lm-eval raises."""
    asked = json.loads(Path(os.environ["TUTTI_TASK"]).read_text())
    chosen: str | dict[str, Any] = task
    if task.endswith(".yaml"):
        chosen = yaml.safe_load(Path(task).read_text())
        chosen |= {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": data}}}
    # Of its own tasks it reads thousands of files, which takes longer than most samples.
    known = TaskManager(include_defaults=isinstance(chosen, str))
    name = chosen if isinstance(chosen, str) else chosen["task"]
    done = simple_evaluate(
        model="local-chat-completions",
        model_args={
            "model": os.environ["TUTTI_MODEL"],
            "base_url": os.environ["OPENAI_BASE_URL"] + "/chat/completions",
            "max_retries": ATTEMPTS,
        },
        tasks=[chosen],
        task_manager=known,
        samples={name: [int(asked["id"])]},
        gen_kwargs={
            "max_gen_toks": asked["max_tokens"],
            "temperature": asked["temperature"],
            "seed": int(os.environ["TUTTI_SEED"]),
        },
        apply_chat_template=True,
        bootstrap_iters=0,
    )
    print(json.dumps(result(done["samples"][name])))


def result(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """What the last line says, of a document's entries: one a filter, the first one counts."""
    first, *_ = samples
    metric = first["metrics"][0]
    scores = {
        f"{name}/{each['filter']}": each[name] for each in samples for name in each["metrics"]
    }
    return {
        "answer": first["filtered_resps"][0],
        "score": first[metric],
        "scorer": f"lm-eval/{metric}/{first['filter']}",
        "version": version("lm_eval"),
        "detail": {"scores": scores, "said": first["resps"][0][0]},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
