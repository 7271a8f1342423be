"""BigCodeBench's check: ``python bigcodebench.py DATA SECONDS < replies.jsonl``.

In: lines ``{"id": of the task, "text": a reply}``; DATA, its JSON lines; SECONDS, the time limit of
a solution's tests instead of its 240 s. Out: a line each, ``{"correct": bool, "code": what its
`sanitize` takes, "why": text}``, calibrated. Needs ``bigcodebench`` and what its parts import.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path


def main(data: Path, seconds: float) -> None:
    """Read replies from stdin, and print what the check says."""
    sys.path.pop(0)  # this file's folder, where this file has the package's name
    import bigcodebench.eval as checks  # type: ignore[import-not-found]
    import matplotlib.pyplot  # noqa: F401 - once, not in each process
    from bigcodebench.sanitize import sanitize  # type: ignore[import-not-found]

    checks.TIMEOUT_LIMIT = seconds
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what solutions print
    tasks = {row["task_id"]: row for row in map(json.loads, data.read_text("utf-8").splitlines())}
    for line in sys.stdin:
        asked = json.loads(line)
        task = tasks[asked["id"]]
        code = sanitize(asked["text"], task["entry_point"])
        status, details = checks.untrusted_check(
            task["code_prompt"] + "\n    pass\n" + code,
            *(task["test"], task["entry_point"], 30 * 1024, 30 * 1024, 10),
            min_time_limit=1,
            gt_time_limit=1,
        )
        why = f"{status}: {str(details)[-300:]}"
        verdict = {"correct": status == checks.PASS, "code": code, "why": why}
        print(json.dumps(verdict), file=out, flush=True)


def in_own_group(data: Path, seconds: float) -> int:
    """Run `main` in a process group of its own and end the group: a solution that ends its process
    leaves the check's managers behind, which would hold our output open. Returns its status."""
    worker = os.fork()
    if not worker:
        os.setpgid(0, 0)
        main(data, seconds)
        return 0
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(in_own_group(Path(sys.argv[1]), float(sys.argv[2])))
