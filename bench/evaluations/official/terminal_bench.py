"""Terminal-Bench's results: ``python terminal_bench.py FOLDER < runs.jsonl``.

In: lines ``{"run": id, "trials": [fields of TrialResults, …]}``. Out: for each run
``FOLDER/<run>/results.json`` and ``run_metadata.json``, written by the package's own models, and a
line ``{"run": …, "n_resolved": …, "accuracy": …, "pass_at_k": {…}}`` with its figures. Needs
``terminal-bench``.
"""

import json
import os
import sys
from pathlib import Path


def main(folder: Path) -> None:
    """Read runs from stdin, write their files and print their figures."""
    sys.path.pop(0)  # this file's folder, where this file has the package's name
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its import asks the network
    from terminal_bench.harness.models import (  # type: ignore[import-not-found]
        BenchmarkResults,
        RunMetadata,
        TrialResults,
    )

    for line in sys.stdin:
        asked = json.loads(line)
        trials = [TrialResults(**trial) for trial in asked["trials"]]
        results = BenchmarkResults(results=trials)
        about = {"run_id": asked["run"], "output_path": str(folder), "agent_name": "made-up"}
        metadata = RunMetadata(**about, no_rebuild=False, cleanup=True, log_level=20)
        out = folder / asked["run"]
        out.mkdir(parents=True)
        (out / "results.json").write_text(results.model_dump_json(indent=4))
        (out / "run_metadata.json").write_text(metadata.model_dump_json(indent=4))
        figures = {"n_resolved": results.n_resolved, "accuracy": results.accuracy}
        print(json.dumps({"run": asked["run"], **figures, "pass_at_k": results.pass_at_k}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
