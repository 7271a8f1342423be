"""IFBench's own checker: ``python ifbench.py CHECKOUT < responses.jsonl``.

In: CHECKOUT, of allenai/IFBench, and lines ``{"row": a row of its data, "response": text}``. Out: a
line each, ``{"strict": [bool …], "loose": [bool …]}``; null where the checker fails. Needs ``nltk``
with its data ``punkt_tab`` and ``stopwords`` (NLTK_DATA), ``syllapy``, ``emoji``, ``langdetect``,
``immutabledict``.
"""

import importlib
import json
import sys
from typing import Any


def main(checkout: str) -> None:
    """Read responses from stdin, and print what the checker says."""
    sys.path[0] = checkout  # in place of this file's folder, where this file has the package's name
    lib: Any = importlib.import_module("evaluation_lib")
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({rule: _said(lib, rule, asked) for rule in ("strict", "loose")}))


def _said(lib: Any, rule: str, asked: dict[str, Any]) -> list[bool | None]:
    """An instruction at a time, so that one that cannot be checked leaves the others."""
    row, found = asked["row"], []
    for name, options in zip(row["instruction_id_list"], row["kwargs"], strict=True):
        given = {key: value for key, value in options.items() if value is not None}
        example = lib.InputExample(row["key"], [name], row["prompt"], [given])
        check = getattr(lib, f"test_instruction_following_{rule}")
        try:
            found.append(check(example, {row["prompt"]: asked["response"]}).follow_all_instructions)
        except (LookupError, TypeError):  # a tagger that is missing; a float as a place
            found.append(None)
    return found


if __name__ == "__main__":
    main(sys.argv[1])
