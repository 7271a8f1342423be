"""Check SGLang's commands with SGLang's own parser, in the models environment.

In and out as `check_vllm`. SGLang checks flags and choices there; it says at its start whether
sizes contradict each other.
"""

import argparse
import json
import os
import sys
from typing import Any


class Refused(Exception):
    """SGLang's parser does not take the arguments."""


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process."""

    def error(self, message: str) -> Any:
        """Raise the message."""
        raise Refused(message)


def main() -> None:
    """Check each command of stdin."""
    orders = json.load(sys.stdin)
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from sglang.srt.server_args import ServerArgs

    for order in orders:
        parser, error = Parser(prog="sglang", allow_abbrev=False), None
        ServerArgs.add_cli_args(parser)
        try:
            parser.parse_args(order["arguments"])
        except (Exception, SystemExit) as refusal:  # any refusal of SGLang's is the answer
            error = " ".join(str(refusal).split()) or type(refusal).__name__
        print(json.dumps({"name": order["name"], "stage": "flags", "error": error}), file=said)
        said.flush()


if __name__ == "__main__":
    main()
