"""Prepare a job that trains an unmodified agent: ``python -m bench.train.external --out FOLDER``.

In: the store of a sweep or training over the family `last_parameter` (TUTTI_HOME), from which the
questions, answers and search results are taken. Out: FOLDER with the agent, its corpus, tasks of
both splits, models.yaml and job.yaml; the command to run is printed.
"""

import argparse
import json
import shutil
from pathlib import Path

import yaml

from tutti.storage import current_home, query
from tutti.tasks.platform.project import POCKET

TASKS = (
    "select distinct split, question, answer from tasks "
    "where family = 'last_parameter' and status = 'accepted' order by all"
)
FOUND = (
    "select distinct c.tool_calls[1].arguments as asked, r.content as found from messages c "
    "join messages r on r.attempt_id = c.attempt_id and r.position = c.position + 1 "
    "where c.role = 'assistant' and r.role = 'tool' and c.tool_calls[1].name = 'search'"
)
ENTRY = {"provider": "vllm", "checkpoint": str(POCKET), "context_tokens": 512, "tools": True}
ENGINE = {"kv_blocks": 128, "max_sequences": 32, "max_batched_tokens": 2048}


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description="Prepare the training of an outside agent.")
    parser.add_argument("--out", type=Path, required=True, help="folder, made anew")
    parser.add_argument("--steps", type=int, default=12, help="updates")
    parser.add_argument("--groups", type=int, default=12, help="tasks a step, of 8 attempts each")
    given = parser.parse_args()
    out, home = given.out.absolute(), current_home()
    out.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("agent.py"), out / "agent.py")
    corpus = {json.loads(row["asked"])["query"]: row["found"] for row in query(FOUND, home)}
    (out / "corpus.json").write_text(json.dumps(corpus))
    for row in query(TASKS, home):
        with (out / f"{row['split']}.jsonl").open("a") as file:
            file.write(json.dumps({"question": row["question"], "answer": row["answer"]}) + "\n")
    models = {"models": {"pocket": ENTRY | {"engine": ENGINE}}}
    (out / "models.yaml").write_text(yaml.safe_dump(models))
    (out / "job.yaml").write_text(yaml.safe_dump(_job(out, given.steps, given.groups)))
    print(f"tutti train grpo {out}/job.yaml --models {out}/models.yaml")


def _job(out: Path, steps: int, groups: int) -> dict[str, object]:
    suite: dict[str, object] = {
        "benchmark": "train.jsonl",
        "data": {"scorer": "exact"},
        "harness": {"command": f"{{python}} {out}/agent.py {out}/corpus.json"},
        "policies": ["passthrough"],
        "concurrency": [8],
        "sampling": {"temperature": 1.0, "max_tokens": 64},
    }
    return {
        "name": "outside-agent",
        "base": "pocket",
        "suite": suite,
        "evaluation": {"suite": suite | {"benchmark": "test.jsonl"}},
        "rollouts": {"groups": groups, "group_size": 8},
        "objective": "grpo",
        "objective_settings": {"high": 0.28},
        "optimizer": {
            "learning_rate": 3e-4,
            "betas": [0.9, 0.99],
            "schedule": "constant",
            "warmup_share": 0.0,
        },
        "steps": steps,
    }


if __name__ == "__main__":
    main()
