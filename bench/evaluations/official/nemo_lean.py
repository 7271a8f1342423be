"""NeMo-Skills' own proof rule: ``python nemo_lean.py CHECKOUT < asked.jsonl``.

In: CHECKOUT, of NVIDIA/NeMo-Skills, and lines ``{"generation": text, "header": text,
"formal_statement": text}`` or ``{"process_status": …, "stdout": …, "stderr": …}``. Out: a line
each, ``{"file": text}`` or ``{"status": text}``. Needs no package: of NeMo-Skills only the two
modules that decide are loaded.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = "nemo_skills/code_execution"


def main(checkout: str) -> None:
    """Read from stdin, and print what NeMo-Skills says."""
    for name, values in (
        ("nemo_skills", {}),
        ("nemo_skills.code_execution", {}),
        ("nemo_skills.utils", {"get_logger_name": lambda file: file}),
        ("nemo_skills.dataset", {}),
        ("nemo_skills.dataset.utils", {"get_lean4_header": lambda: ""}),
    ):
        module = ModuleType(name)
        vars(module).update(values)
        sys.modules[name] = module
    _load(checkout, "utils")
    rule = _load(checkout, "proof_utils")
    for line in sys.stdin:
        asked = json.loads(line)
        if "generation" in asked:
            settings = rule.ProofBuildConfig()
            said = {"file": rule.build_lean4_proof(asked["generation"], asked, settings)}
        else:
            said = {"status": rule.determine_proof_status(asked)}
        print(json.dumps(said))


def _load(checkout: str, name: str) -> Any:
    path = Path(checkout, FOLDER, f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"nemo_skills.code_execution.{name}", path)
    assert spec is not None and spec.loader is not None, f"no module {path}"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1])
