"""Compare: ``python -m bench.evaluations api-bank --python PYTHON --source CHECKOUT``.

`--python` is the Python of an environment with the official program, `--source` its data or its
checkout. `docs/evaluations.md` has the results and says how each environment is made.
"""

import argparse
from pathlib import Path

from bench.evaluations import (
    api_bank,
    api_bank_3,
    bfcl,
    bfcl_package,
    bigcodebench,
    bird,
    evalplus,
    flowbench,
    ifbench,
    ifeval,
    inspect_evals,
    mnms,
    nemo_lean,
    nemo_metrics,
    terminal_bench,
)

COMPARED = {
    "api-bank": api_bank.calls,
    "api-bank-errors": api_bank.errors,
    "api-bank-executed": api_bank.executed,
    "api-bank-response": api_bank.replies,
    "api-bank-3": api_bank_3.calls,
    "api-bank-3-recorded": api_bank_3.recorded,
    "api-bank-3-response": api_bank_3.replies,
    "bfcl": bfcl.calls,
    "bfcl-code": bfcl_package.code,
    "bfcl-multi-turn": bfcl_package.turns,
    "bigcodebench": bigcodebench.verdicts,
    "bird": bird.queries,
    "flowbench": flowbench.turns_and_sessions,
    "humaneval-plus": evalplus.humaneval,
    "ifbench": ifbench.checks,
    "ifeval": ifeval.checks,
    "mbpp-plus": evalplus.mbpp,
    "mnms": mnms.plans,
    "nemo-lean": nemo_lean.proofs,
    "nemo-measured": nemo_metrics.measured,
    "nemo-metrics": nemo_metrics.figures,
    "terminal-bench": terminal_bench.figures,
    **{f"inspect-{each.__name__}": each for each in inspect_evals.COMPARED},
}


def main() -> None:
    """Print the agreement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=COMPARED)
    parser.add_argument("--python", required=True)
    parser.add_argument("--source", required=True, type=Path)
    asked = parser.parse_args()
    print(COMPARED[asked.what](asked.python, asked.source.resolve()).table())


if __name__ == "__main__":
    main()
