"""The gateway's command-line options, defined once.

`tutti gateway` and ``python -m tutti.tasks.serving.gateway`` (which sweeps start) both take them
from here. Standard library only, because `tutti --help` reads this module.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

PORT = 8300
SLOTS = 32
"""Calls in flight at an engine whose load cannot be seen: enough for the batch of a small engine,
and few enough that a call which was sent does not wait for minutes inside one."""


@dataclass(frozen=True)
class OptionInfo:
    """How one option appears on a command line."""

    help: str
    metavar: str | None = None
    kind: type = str
    """Type of the value, or of each value of a repeatable option."""
    least: float | None = None
    most: float | None = None


def _option(default: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    return field(default=default, metadata={"option": OptionInfo(help, metavar, **more)})


@dataclass(frozen=True)
class GatewayOptions:
    """A gateway's start options."""

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
    slots: int = _option(
        SLOTS,
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
        (),
        "another host name that browsers may use, such as a reverse proxy's; may be repeated",
        "NAME",
    )
    allow_engine: tuple[str, ...] = _option(
        (),
        "where POST /engines may add engines beside public addresses and the hosts of --engine: a "
        "name, an address, a network like 10.0.0.0/8; may be repeated",
        "HOST|NETWORK",
    )
    engine_key: tuple[str, ...] = _option(
        (),
        "an environment variable with a key that POST /engines may name; may be repeated",
        "VARIABLE",
    )
    record_tokens: bool = _option(False, "record token ids and log probabilities", kind=bool)
    all_events: bool = _option(False, "record every event of a call", kind=bool)
    no_journal: bool = _option(
        False, "do not keep the list of programs that survives a crash", kind=bool
    )

    @classmethod
    def described(cls) -> Mapping[str, tuple[OptionInfo, Any]]:
        """Each option by its field's name, with its default."""
        return {each.name: (each.metadata["option"], each.default) for each in fields(cls)}

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> "GatewayOptions":
        """Parse a command line; exits with 2 and a message if it is invalid."""
        parser = argparse.ArgumentParser(description="The program-aware gateway before engines.")
        for name, (info, default) in cls.described().items():
            if info.kind is bool:
                parser.add_argument(flag_of(name), action="store_true", help=info.help)
                continue
            is_repeated = isinstance(default, tuple)
            parser.add_argument(
                flag_of(name),
                action="append" if is_repeated else "store",
                metavar=info.metavar,
                type=_reader(info),
                help=info.help,
                default=None if is_repeated else default,
            )
        return cls.of(vars(parser.parse_args(arguments)))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "GatewayOptions":
        """From values by field; accepts lists, and None for repeatable options."""
        repeated = {each.name for each in fields(cls) if isinstance(each.default, tuple)}
        values: dict[str, Any] = {
            name: tuple(value or ()) if name in repeated else value for name, value in given.items()
        }
        return cls(**values)


def flag_of(name: str) -> str:
    """The flag of a field: ``budget_usd`` is ``--budget-usd``."""
    return "--" + name.replace("_", "-")


def _reader(info: OptionInfo) -> Callable[[str], Any]:
    """A function that reads one value and checks its bounds."""

    def read(text: str) -> Any:
        value = info.kind(text)
        if info.least is not None and value < info.least:
            raise argparse.ArgumentTypeError(f"must be at least {info.least}, not {text}")
        if info.most is not None and value > info.most:
            raise argparse.ArgumentTypeError(f"must be at most {info.most}, not {text}")
        return value

    read.__name__ = info.kind.__name__  # argparse uses the name in "invalid int value"
    return read
