"""tau2's data: where a checkout has them, and the task of an attempt.

In: the path that the user gave (`data.source`), a domain. Out: tau2 told to read from there, and
the task as tau2's own model. tau2 must not be imported before `use_data`.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tau2.data_model.tasks import Task

DOMAINS = {"banking": "banking_knowledge"}
"""tau2's name of a domain, where a benchmark's is shorter."""
TASKS = "tasks.json", "tasks_small.json"


def use_data(source: str | None, domain: str) -> Path:
    """Let tau2 read the data below `source`, a checkout or its folder ``data/tau2/domains``;
    returns the domain's folder. Ends the process where it has none."""
    if source is None:
        sys.exit("data.source: name a checkout of tau2-bench")
    given = Path(source)
    places = given / "data", given, *given.parents[:2]
    for place in places:
        folder = place / "tau2" / "domains" / domain
        if folder.is_dir():
            os.environ["TAU2_DATA_DIR"] = str(place)
            os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network
            return folder
    sys.exit(f"data.source: {source} is no checkout of tau2-bench: no data/tau2/domains/{domain}")


def read_tasks(folder: Path) -> dict[str, "Task"]:
    """The tasks in a domain's folder by their ids, which are text."""
    from tau2.data_model.tasks import Task

    file = next((folder / name for name in TASKS if (folder / name).is_file()), None)
    if file is None:
        sys.exit(f"{folder} holds none of {', '.join(TASKS)}")
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return {str(row["id"]): Task.model_validate(row) for row in rows}
