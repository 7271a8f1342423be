"""IFEval's checker as lm-eval carries it: ``python ifeval.py < responses.jsonl``.

In: lines ``{"row": a row of IFEval's data, "response": text}``. Out: a line each, ``{"strict":
[bool …], "loose": [bool …]}``. Needs ``lm-eval`` without its dependencies, ``langdetect``,
``immutabledict``, ``packaging``, and ``nltk`` with its data ``punkt_tab`` (NLTK_DATA).
"""

import importlib
import json
import random
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def main() -> None:
    """Read responses from stdin, and print what the checker says."""
    found = find_spec("lm_eval")
    if found is None or found.submodule_search_locations is None:
        raise ImportError("lm_eval is not installed")
    (folder,) = found.submodule_search_locations
    # The package's own __init__ imports every model client.
    for name, path in (("lm_eval", folder), ("lm_eval.tasks", f"{folder}/tasks")):
        module: Any = ModuleType(name)
        module.__path__ = [path]
        sys.modules[name] = module
    utils: Any = importlib.import_module("lm_eval.tasks.ifeval.utils")
    random.seed(0)
    import langdetect  # type: ignore[import-not-found,unused-ignore]

    langdetect.DetectorFactory.seed = 0
    for line in sys.stdin:
        asked = json.loads(line)
        said = utils.process_results(asked["row"], [asked["response"]])
        strict, loose = said["inst_level_strict_acc"], said["inst_level_loose_acc"]
        print(json.dumps({"strict": strict, "loose": loose}))


if __name__ == "__main__":
    main()
