"""Check vLLM's commands with vLLM's own parser and configuration, in the models environment.

In: on stdin a JSON list of ``{"name", "arguments", "dropped"}``. Out: on stdout one JSON line of
``{"name", "stage", "error"}`` each, as they are done; `error` is null where all stages passed.
Nothing is loaded and no device is touched. It imports nothing of tutti, so that any environment
with vLLM runs it. `dropped` are flags that this build refuses whatever their values; they pass the
parser and are left out of the configuration.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any


class Refused(Exception):
    """vLLM's parser does not take the arguments."""


def main() -> None:
    """Check each command of stdin."""
    orders = json.load(sys.stdin)
    # vLLM's own log goes to stdout too: what we say has a descriptor of its own.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> Any:
            raise Refused(message)

    for order in orders:
        stage, error = _check(order["arguments"], order["dropped"], Parser)
        print(json.dumps({"name": order["name"], "stage": stage, "error": error}), file=said)
        said.flush()


def _check(arguments: list[str], dropped: list[str], parser: Any) -> tuple[str, str | None]:
    for stage, work in _stages(arguments, dropped, parser):
        try:
            work()
        except (Exception, SystemExit) as error:  # any refusal of vLLM's is the answer
            return stage, _text(error)
    return "configuration", None


def _stages(arguments: list[str], dropped: list[str], parser: Any) -> Iterator[tuple[str, Any]]:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.cli.serve import make_arg_parser
    from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args
    from vllm.entrypoints.launchers.launcher import validate_api_server_args

    # vLLM resolves abbreviations, which the next version may read as another flag.
    made = make_arg_parser(parser(prog="vllm", allow_abbrev=False))
    parsed: list[Any] = []
    yield "flags", lambda: parsed.append(made.parse_args(arguments))
    yield "flags", lambda: validate_parsed_serve_args(parsed[0])
    yield "parsers", lambda: _with_plugins(parsed[0], validate_api_server_args)
    kept = [word for word in arguments if word.split("=")[0] not in dropped]
    again: list[Any] = []
    yield "configuration", lambda: again.append(made.parse_args(kept))
    yield (
        "configuration",
        lambda: AsyncEngineArgs.from_cli_args(again[0]).create_engine_config(),
    )


def _with_plugins(parsed: Any, validate: Any) -> None:
    """Parsers of plugin files are known to vLLM once the files are read, as at its start."""
    for name in ("tool_parser_plugin", "reasoning_parser_plugin"):
        if (path := getattr(parsed, name, "")) and not os.path.isfile(path):
            raise Refused(f"--{name.replace('_', '-')}: no file {path}")
    if parsed.tool_parser_plugin:
        from vllm.tool_parsers import ToolParserManager

        ToolParserManager.import_tool_parser(parsed.tool_parser_plugin)
    if parsed.reasoning_parser_plugin:
        from vllm.reasoning import ReasoningParserManager

        ReasoningParserManager.import_reasoning_parser(parsed.reasoning_parser_plugin)
    validate(parsed)


def _text(error: BaseException) -> str:
    """What vLLM said, in one line: pydantic's reports have the reason in their third."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        return "; ".join(str(each.get("msg", each)) for each in errors())
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    main()
