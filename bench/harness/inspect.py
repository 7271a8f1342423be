"""Inspect on the same tasks and endpoint: ``PYTHON -m bench.harness.inspect URL SAMPLES``.

Run by a peer's Python. Prints one JSON object: seconds, and CPU seconds of this process.
"""

import json
import os
import resource
import sys
import tempfile
import time

from bench.harness.wire import CONCURRENCY, QUESTION


def main(url: str, samples: int) -> None:
    """One evaluation, as its users are told to run large ones: no display, no realtime log."""
    os.environ |= {"MOCK_API_KEY": "none", "MOCK_BASE_URL": f"{url}/v1"}
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate

    rows = [Sample(input=QUESTION, target="7", id=n) for n in range(samples)]
    task = Task(dataset=rows, solver=generate(), scorer=includes())
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(
            task,
            model="openai-api/mock/mock",
            log_dir=folder,
            display="none",
            log_realtime=False,
            max_connections=CONCURRENCY,
            max_samples=CONCURRENCY,
        )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    done = log.results.completed_samples if log.results else 0
    print(json.dumps({"status": log.status, "samples": done, "seconds": seconds, "cpu_s": cpu}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
