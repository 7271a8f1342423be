"""The gateway's settings: flags of its command line, and those that only programs set.

`tutti gateway` and ``python -m tutti.tasks.serving.gateway`` (which sweeps start) both take their
flags from here. Standard library only, because `tutti --help` reads this module.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

PORT = 8300
INTERNAL = {"internal": True}  # of a setting that is no flag


@dataclass(frozen=True)
class OptionInfo:
    """The form of one setting on a command line."""

    help: str
    metavar: str | None = None
    kind: type = str
    """Type of the value, or of each value of a repeatable flag."""
    least: float | None = None
    most: float | None = None


def _option(default: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    return field(default=default, metadata={"option": OptionInfo(help, metavar, **more)})


@dataclass(frozen=True)
class GatewaySettings:
    """A gateway's settings; the defaults are safe."""

    engine: tuple[str, ...] = _option(
        (),
        "base URL of a running engine (vLLM, SGLang); may be repeated; see also POST /engines",
        "URL|ID=URL|JSON",
    )
    name: str = _option(
        "",
        "where the attempts of programs are kept, as the name of a sweep; `tutti gateway` has "
        "gateway-PORT, others keep none without it",
    )
    policy: str = _option(
        "adaptive",
        "passthrough, cap, adaptive, thunderagent, continuum or least_attained_service",
    )
    limit: int | None = _option(None, "programs at once, for --policy cap", kind=int, least=1)
    option: tuple[str, ...] = _option((), "an option of the policy; may be repeated", "NAME=VALUE")
    host: str = _option(
        "127.0.0.1", "address to listen on; other addresses than loopback need tokens"
    )
    port: int = _option(PORT, "0 for any free port", kind=int, least=0, most=65535)
    budget_usd: float | None = _option(
        None, "refuse calls with 402 once they have cost this much", kind=float, least=0
    )
    hold_s: float = _option(300.0, "longest time a call is held, then 503", kind=float, least=0)
    # enough for the batch of a small engine, and few enough that no call waits minutes inside one
    slots: int = _option(
        32,
        "calls in flight at an engine without /metrics, whose entry sets no `max_calls`",
        kind=int,
        least=1,
    )
    max_held: int = _option(20_000, "most calls held at once, then 503", kind=int, least=0)
    body_mib: int = _option(
        16,
        "largest body of a request; above the default, one of text may stop other calls for longer "
        "than 50 ms",
        "MIB",
        kind=int,
        least=1,
        most=64,
    )
    prices: Path | None = field(
        default=None,
        metadata={
            "option": OptionInfo("price file; deployments/prices.yaml if left out", "FILE", Path)
        },
    )
    allow_host: tuple[str, ...] = _option(
        (), "another host name that browsers may use, as a reverse proxy's; may be repeated", "NAME"
    )
    allow_engine: tuple[str, ...] = _option(
        (),
        "where POST /engines may add engines beside public addresses and the hosts of --engine: a "
        "name, an address, a network like 10.0.0.0/8; may be repeated",
        "HOST|NETWORK",
    )
    engine_key: tuple[str, ...] = _option(
        (), "an environment variable that POST /engines may name; may be repeated", "VARIABLE"
    )
    record_tokens: bool = _option(False, "record token ids and log probabilities", kind=bool)
    # also those that `calls` covers: arrive, admit, first_token, finish, tool_start
    all_events: bool = _option(False, "record every event of a call", kind=bool)
    no_journal: bool = _option(False, "keep no list of programs after a crash", kind=bool)
    comment_s: float = field(default=15.0, metadata=INTERNAL)
    """Interval of comments to a held stream's client; 0 for none."""
    upstream_s: float = field(default=600.0, metadata=INTERNAL)
    """The longest silence of an engine."""
    idle_lease_s: float = field(default=1800.0, metadata=INTERNAL)
    sample_s: float = field(default=1.0, metadata=INTERNAL)
    """Interval at which engines' metrics are sampled."""

    @property
    def policy_options(self) -> dict[str, Any]:
        """The options of the policy, not validated. Raises ValueError for one without a name, and
        for `cap` without a limit."""
        options: dict[str, Any] = {}
        for text in self.option:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise ValueError(f"--option must be NAME=VALUE, not {text!r}")
            try:
                options[name] = json.loads(value)
            except json.JSONDecodeError:
                options[name] = value
        if self.limit is not None:
            options["limit"] = self.limit
        if self.policy == "cap" and "limit" not in options:
            raise ValueError("--policy cap needs --limit, the programs that may run at once")
        return options

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> "GatewaySettings":
        """Parse a command line; exits with 2 and a message if it is invalid."""
        parser = argparse.ArgumentParser(description="The program-aware gateway before engines.")
        flags = [each for each in fields(cls) if "option" in each.metadata]
        repeated = {each.name for each in flags if each.default == ()}
        for each in flags:
            info: OptionInfo = each.metadata["option"]
            how: dict[str, Any] = {"action": "store_true"}
            if info.kind is not bool:
                action = "append" if each.name in repeated else "store"
                how = {"action": action, "metavar": info.metavar, "type": _reader(info)}
                how["default"] = None if each.name in repeated else each.default
            parser.add_argument(flag_of(each.name), help=info.help, **how)
        given = vars(parser.parse_args(arguments))
        return cls(**given | {name: tuple(given[name] or ()) for name in repeated})


def flag_of(name: str) -> str:
    """The flag of a field: ``budget_usd`` is ``--budget-usd``."""
    return "--" + name.replace("_", "-")


def _reader(info: OptionInfo) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = info.kind(text)
        if info.least is not None and value < info.least:
            raise argparse.ArgumentTypeError(f"must be at least {info.least}, not {text}")
        if info.most is not None and value > info.most:
            raise argparse.ArgumentTypeError(f"must be at most {info.most}, not {text}")
        return value

    read.__name__ = info.kind.__name__  # argparse uses the name in "invalid int value"
    return read
