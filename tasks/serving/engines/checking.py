"""Checks of commands with the servers' own parsers before anything is started.

In: launches. Out: for each the faults, and what could not be checked here. All commands of one
server are checked in one process, because its imports take ten seconds and a command a tenth. The
hash of a command that passed is stored in the store's home, and the command is not checked again.
"""

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Home, content_hash
from tutti.storage import catalog as cat
from tutti.tasks.serving.engines.commands import Build, command_of
from tutti.tasks.serving.engines.flags import (
    CPU_BATCHED_TOKENS,
    CPU_SEQUENCES,
    Launch,
    ServerCommand,
)
from tutti.tasks.serving.errors import RegistryError, ServingError

TIMEOUT_S = 300.0
SCRIPT = Path(__file__).with_name("check_child.py")
REFUSED_BY_CPU_BUILD = ("--enable-sleep-mode",)
"""Flags that vLLM's CPU build refuses whatever the machine that is meant."""
OF_OTHER_DEVICE = "GPU count, memory, and kernels for the dtype, quantization and KV cache"
STRETCHING = ("--rope-", "--yarn-")
"""How llama.cpp's flags begin that make a context above the model's own."""
SIZES = frozenset(("kv_blocks", "kv_tokens", "max_sequences", "max_batched_tokens", "lora"))
LEFT_OUT = frozenset(("start_timeout_s", "gpus", "replicas", "device", "server"))


@dataclass(frozen=True)
class Verdict:
    """The verdict of the server's own code on one command."""

    name: str
    error: str | None
    unchecked: tuple[str, ...] = ()
    """What this environment cannot judge."""


def needs_check(launch: Launch) -> bool:
    """Whether the server must check an entry. Entries for vLLM on the CPU that set only sizes need
    no check: the sizes are compared here at once."""
    settings = launch.settings
    if settings.server != "vllm" or launch.device != "cpu":
        return True
    said = settings.model_dump(exclude_defaults=True).keys() - LEFT_OUT
    sequences = settings.max_sequences or CPU_SEQUENCES
    tokens = settings.max_batched_tokens or CPU_BATCHED_TOKENS
    too_long = launch.max_context is not None and launch.context_tokens > launch.max_context
    return bool(said - SIZES) or too_long or sequences > max(tokens, launch.context_tokens)


def check_launches(launches: Iterable[Launch], build: Build, home: Home) -> list[Verdict]:
    """Return the verdict on each launch, in order. Raises RegistryError for flags that contradict
    each other, ModelsEnvironmentMissing, and ServingError if a check itself fails."""
    commands = [(each, command_of(each, build)) for each in launches]
    folder, errors = home.root / "engine-checks", dict[str, str | None]()
    for server in ("vllm", "sglang"):
        keys: dict[str, Path] = {}
        orders = []
        for launch, command in commands:
            key = folder / _key(launch, command, build)
            if launch.settings.server == server and not key.is_file():
                keys[launch.name] = key
                dropped = build.device == "cpu" and launch.device != "cpu"
                order = {"name": launch.name, "arguments": command.arguments}
                orders.append(order | {"dropped": REFUSED_BY_CPU_BUILD if dropped else ()})
        errors |= _ask(server, orders, build) if orders else {}
        with cat.store_boundary(home):
            folder.mkdir(parents=True, exist_ok=True)
            for passed in [key for name, key in keys.items() if errors[name] is None]:
                passed.touch()
    return [
        _by_help(launch, command)
        if launch.settings.server == "llama.cpp"
        else Verdict(launch.name, errors.get(launch.name), _unchecked(launch, build))
        for launch, command in commands
    ]


def refuse_wrong_commands(launches: Sequence[Launch], build: Build, home: Home) -> list[Verdict]:
    """Check launches that need it. Raises RegistryError with every refusal, one per line."""
    verdicts = check_launches([each for each in launches if needs_check(each)], build, home)
    if wrong := [each for each in verdicts if each.error is not None]:
        lines = (f"models.{each.name}.engine: {each.error}" for each in wrong)
        raise RegistryError("\n".join(lines))
    return verdicts


def _unchecked(launch: Launch, build: Build) -> tuple[str, ...]:
    if launch.settings.server == "sglang":
        return ("sizes that contradict each other", OF_OTHER_DEVICE)
    return (OF_OTHER_DEVICE,) if launch.device != build.device else ()


def _key(launch: Launch, command: ServerCommand, build: Build) -> str:
    """The hash of the verdict's inputs: the server, its arguments, the model's configuration."""
    config = launch.weights / "config.json"
    read = config.read_text() if config.is_file() else ""
    return content_hash([build.text, str(build.python), list(command.arguments), read])


def _ask(server: str, orders: list[dict[str, Any]], build: Build) -> dict[str, str | None]:
    try:
        done = subprocess.run(
            [str(build.python), "-I", str(SCRIPT), server],
            input=json.dumps(orders),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise ServingError(
            f"{server} did not check {len(orders)} commands in {TIMEOUT_S:.0f} s; run it again"
        ) from None
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(orders):
        end = "\n".join(done.stderr.splitlines()[-5:])
        raise ServingError(f"{server} could not check its commands:\n{end}")
    return {each["name"]: each["error"] and _short(each["error"]) for each in answers}


def _short(error: str) -> str:
    """Return a refusal without pydantic's prefix; some have nothing else."""
    reason = error.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return reason.strip() or "refused without a reason (an assertion in the server's own code)"


def _by_help(launch: Launch, command: ServerCommand) -> Verdict:
    """Check llama.cpp's flags against its --help, the only check without a start. llama.cpp starts
    with a context above the model's, and answers nonsense beyond it; with flags that extend the
    positions, this is the user's responsibility."""
    try:
        told = subprocess.run(
            [*command.program, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServingError(f"{command.program[0]} --help: {error}") from None
    known = {word.rstrip(",") for word in told.stdout.split() if word.startswith("--")}
    flags = [word for word in command.arguments if word.startswith("--")]
    missing = [flag for flag in flags if flag not in known]
    wrong = [f"{', '.join(missing)}: no flag of {command.program[0]}"] if missing else []
    limit, asked = launch.max_context, launch.context_tokens
    stretched = any(flag.startswith(STRETCHING) for flag in flags)
    if limit is not None and asked > limit and not stretched:
        wrong.append(f"context_tokens: {asked}, and the model was made for {limit}; lower it")
    return Verdict(launch.name, "; ".join(wrong) or None, ("values of flags", "memory"))
