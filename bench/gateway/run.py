"""The gateway's bench: ``python -m bench.gateway [--only hop|chunks|held] [--repeats 5]``.

In: nothing; mock engines and the load are generated. Out: a table and one line of JSON
(bench/report.py). The cost of a hop beside the peers', in turn: CPU, latency added, calls per
second of one core; the cost of a streamed event; thousands of held programs. Linux only: CPU and
memory are the kernel's. Peers: bench/gateway/routers.py.
"""

import argparse
import resource
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.gateway import held as holding
from bench.gateway.client import Job, LoadResult, run_job
from bench.gateway.cost import rss_mb
from bench.gateway.routers import (
    KEPT,
    OURS,
    PEERS,
    Bench,
    Router,
    running_engines,
    running_gateway,
    start_peers,
)
from bench.gateway.wire import RouterProtocol
from bench.report import Report, Target
from tutti import storage
from tutti.tasks.platform.project import PROJECT

PARTS = ("hop", "chunks", "held")
FEW_BLOCKS = 512  # of 16 tokens an engine, while a program has about 280 tokens
SCARCE = ("--mode", "hold", "--blocks", str(FEW_BLOCKS))
CAP = 32
PEER_ARRIVALS_PER_S = 250.0  # about what ThunderAgent can take
PEER_WATCH_S = 11.0  # two of its ticks
TARGETS = {
    "cpu_us_per_request": Target(100.0),
    "added_p50_ms": Target(0.25),
    "requests_per_s": Target(6000.0, least=True),
    "chunk_us": Target(10.0),
    "held_5000_decision_ms": Target(1.0),
    "held_5000_mb": Target(300.0),
    "max_stall_ms": Target(10.0),
}


@dataclass(frozen=True)
class Sizes:
    """The amount of load in each repeat."""

    hop_s: float = 6.0
    alone_s: float = 0.6
    """Duration at concurrency 1, with and without the router."""
    warm: int = 200
    connections: int = 32
    streams: int = 64
    stream_calls: int = 64
    few_tokens: int = 20
    many_tokens: int = 200
    held: int = 5000
    released: int = 1500


SMALL = Sizes(
    hop_s=0.3,
    alone_s=0.2,
    warm=40,
    streams=16,
    stream_calls=32,
    few_tokens=5,
    many_tokens=25,
    held=200,
    released=80,
)


@dataclass
class Contestant:
    """A router, the form of its calls, and its figures: one value per repeat."""

    router: Router
    speech: RouterProtocol
    ending: str = ""
    """Suffix of its figures' names, for a second way to call the same router."""
    figures: dict[str, list[float]] = field(default_factory=dict)
    sent: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of the router."""
        return self.router.name

    def add(self, name: str, value: float) -> None:
        """One repeat's value."""
        self.figures.setdefault(name + self.ending, []).append(value)

    @contextmanager
    def tolerated(self) -> Iterator[None]:
        """A failing peer has no value in this repeat, and the table says so; our router must not
        fail."""
        try:
            yield
        except RuntimeError as error:
            if self.router.home is not None:
                raise
            self.failures.append(str(error))

    def run(
        self,
        connections: int,
        *,
        seconds: float = 0.0,
        calls: int = 0,
        warm: int = 0,
        tokens: int = 0,
    ) -> LoadResult:
        """Put a load on it: for a duration, or a number of calls."""
        router = self.router
        job = Job(
            router.port,
            router.server.owner,
            connections,
            self.speech,
            seconds,
            calls,
            warm,
            tokens,
        )
        found = run_job(job)
        self.sent += found.sent
        return found


def measure_hop(contestants: Sequence[Contestant], direct: Contestant, sizes: Sizes) -> None:
    """One repeat: calls at concurrency 32 and, alternating with direct calls to the engine, at
    1."""
    for each in [direct, *contestants]:
        with each.tolerated():
            found = each.run(sizes.connections, seconds=sizes.hop_s, warm=sizes.warm)
            each.add("cpu_us_per_request", found.cpu_s / found.calls * 1e6)
            each.add("requests_per_s", found.calls / found.seconds)
            each.add("p50_ms", found.p50_ms)
            each.add("p99_ms", found.p99_ms)
            each.add("rss_mb", rss_mb(each.router.server.owner))
    for each in contestants:
        if each.ending:  # the same router, spoken to in another way
            continue
        with each.tolerated():
            without = direct.run(1, seconds=sizes.alone_s, warm=sizes.warm // 4).p50_ms
            through = each.run(1, seconds=sizes.alone_s, warm=sizes.warm // 4).p50_ms
            direct.add("alone_p50_ms", without)
            each.add("added_p50_ms", through - without)


def measure_chunks(contestants: Sequence[Contestant], sizes: Sizes) -> None:
    """One repeat: the same number of streams with few events and with many."""
    for each in contestants:
        with each.tolerated():
            streams, calls = sizes.streams, sizes.stream_calls
            few = each.run(streams, calls=calls, tokens=sizes.few_tokens, warm=streams)
            many = each.run(streams, calls=calls, tokens=sizes.many_tokens)
            slope = (many.cpu_s - few.cpu_s) / (many.events - few.events)
            each.add("chunk_us", slope * 1e6)


def measure_calls(
    report: Report, bench: Bench, sizes: Sizes, parts: Sequence[str], names: Sequence[str]
) -> None:
    """Hop and chunks: all routers run from beginning to end, and are measured in turn."""
    with running_engines(bench) as engines, ExitStack() as stack:
        ours = stack.enter_context(running_gateway(bench, engines, "adaptive"))
        peers, missing = start_peers(stack, bench, engines, names)
        plain, kept = Contestant(ours, ours.speech), Contestant(ours, KEPT, "_kept")
        others = [Contestant(peer, peer.speech) for peer in peers]
        direct = Contestant(
            Router("direct", engines.ports[0], engines.server), RouterProtocol(releases=False)
        )
        for _ in range(report.repeats):
            if "hop" in parts:
                measure_hop([plain, kept, *others], direct, sizes)
            if "chunks" in parts:
                measure_chunks([plain, *others], sizes)
    for name, values in (plain.figures | kept.figures).items():
        report.figure(name, values, TARGETS.get(name))
    for other in [*others, direct]:
        for name, values in other.figures.items():
            report.peer(other.name, name, values)
        for failure in other.failures:
            report.note(f"{other.name} failed in a repeat, which has no value of it: {failure}")
    enter_records(report, ours, plain.sent + kept.sent)
    for line in missing:
        report.note(line)


def enter_records(report: Report, ours: Router, sent: int) -> None:
    """How many of the calls sent are rows of `calls` after the gateway has ended."""
    assert ours.home is not None, "our gateway has a store"
    query = "select count(*), count(distinct call_id) from calls"
    with storage.connect(storage.Home(ours.home)) as connection:
        [(rows, distinct)] = connection.sql(query).fetchall()
    report.figure("recorded_ratio", [distinct / sent], Target(1.0, least=True))
    report.note(f"recorded: {rows:,} rows of calls, {distinct:,} distinct, of {sent:,} sent.")


def measure_held(report: Report, bench: Bench, sizes: Sizes) -> None:
    """Programs held by the policy `adaptive`, and by `cap`: a fresh gateway for each repeat."""
    found: dict[str, dict[str, list[float]]] = {"": {}, "cap_": {}}
    held: list[int] = []
    for _ in range(report.repeats):
        for kind, cap in (("", 0), ("cap_", CAP)):
            one = hold(bench, sizes, cap)
            held.append(one.held)
            for name, value in held_figures(one, kind).items():
                found[kind].setdefault(name, []).append(value)
    for figures in found.values():
        for name, values in figures.items():
            report.figure(name, values, TARGETS.get(name))
    report.note(
        f"held: of {sizes.held:,} programs the gateway held {min(held):,} to {max(held):,}, the "
        f"engines the others; then {sizes.released:,} were answered and released one after another."
    )


def hold(bench: Bench, sizes: Sizes, cap: int) -> holding.HeldResult:
    """One repeat of one policy."""
    with (
        running_engines(bench, *SCARCE) as engines,
        running_gateway(bench, engines, "adaptive") as ours,
    ):
        return holding.run_job(
            holding.HeldJob(
                port=ours.port,
                owner=ours.server.owner,
                control_port=engines.ports[0],
                programs=sizes.held,
                released=sizes.released,
                cap=cap,
            )
        )


def measure_held_by_peer(report: Report, bench: Bench, sizes: Sizes) -> None:
    """ThunderAgent with as many programs, once; it releases calls at its tick, so the bench only
    observes during its ticks."""
    with running_engines(bench, *SCARCE) as engines, ExitStack() as stack:
        peers, _ = start_peers(stack, bench, engines, ["thunderagent"])
        for peer in peers:  # none when it cannot be had, which was noted
            job = holding.HeldJob(
                port=peer.port,
                owner=peer.server.owner,
                control_port=engines.ports[0],
                programs=sizes.held,
                released=0,
                arrivals_per_s=PEER_ARRIVALS_PER_S,
                speech=peer.speech,
                held_field="paused_count",
                watch_s=PEER_WATCH_S,
            )
            try:
                found = holding.run_job(job)
            except RuntimeError as error:
                report.note(f"thunderagent's held programs are left out: {error}")
                continue
            report.peer(peer.name, "held_5000_mb", [found.rss_mb])
            report.peer(peer.name, "held_5000_arrival_poll_max_ms", [found.arrival_poll_max_ms])
            report.peer(peer.name, "max_stall_ms", [found.poll_max_ms])


def held_figures(found: holding.HeldResult, kind: str) -> dict[str, float]:
    """A repeat's figures by name, including the gateway's own if it reports them."""
    start = f"held_5000_{kind}"
    figures = {
        f"{start}mb": found.rss_mb,
        f"{start}grown_mb": found.rss_mb - found.rss_before_mb,
        f"{start}cpu_us_per_program": found.cpu_us_per_program,
        f"{start}release_p99_ms": found.release_p99_ms,
        f"{start}poll_p99_ms": found.poll_p99_ms,
        f"{start}arrival_poll_max_ms": found.arrival_poll_max_ms,
        f"{kind}max_stall_ms": found.poll_max_ms,
    }
    told = {
        "decision_p99_ms": f"{start}decision_ms",
        "decision_max_ms": f"{start}decision_max_ms",
        "loop_stall_max_ms": f"{kind}loop_stall_max_ms",
    }
    figures |= {ours: found.health[its] for its, ours in told.items() if its in found.health}
    # A release's answer comes after the decision it asks for, so it bounds it from above.
    figures.setdefault(f"{start}decision_ms", found.release_p99_ms)
    return figures


def explain(report: Report, parts: Sequence[str]) -> None:
    """Explain the figures."""
    if "hop" in parts:
        report.note(
            "hop: 1.1 kB calls of 48 programs in turn, 10 calls each, then released (ThunderAgent "
            "too; vllm_router has no release), 0.5 kB answers, recording on; CPU of the router's "
            "process tree, user and system, until it rests again. requests_per_s, p50, p99: 32 "
            "connections, the router pinned to one core. added: p50 at one connection less the "
            "engine's own just before. kept: the client records its messages itself. raw_relay: "
            "bytes passed on by a protocol of this bench, the floor; direct: no router, so its CPU "
            "is the engines'."
        )
    if "chunks" in parts:
        report.note(
            "chunk: CPU of a stream's event, 64 streams, an event of each every 10 ms: slope "
            "between streams of 20 and of 200. A router that lags reads several events at once, "
            "so on a busy machine the slow ones look better than they are."
        )
    if "held" in parts:
        report.note(
            "decision: what the gateway tells of itself (else the p99 of a release's answer). "
            "max_stall, poll: the answer of /health, asked every 20 ms by another process while "
            "programs are released, 500 a second; loop_stall: what the gateway tells of itself."
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="bench.gateway", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=PARTS, help="one part of the bench")
    parser.add_argument("--no-peers", action="store_true", help="ours and the floor only")
    parser.add_argument("--small", action="store_true", help="seconds, to test the bench itself")
    parser.add_argument("--peers", type=Path, default=PROJECT / "build" / "peers", help="kept here")
    parser.add_argument(
        "--command",
        default=OURS,
        help="of another build of the gateway; {first} {second} {policy} {port} are filled in",
    )
    given = parser.parse_args(arguments)
    parts = [given.only] if given.only else PARTS
    names = ["raw_relay"] if given.no_peers else list(PEERS)
    sizes = SMALL if given.small else Sizes()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # children inherit it
    report = Report("gateway", given.repeats)
    with tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder:
        bench = Bench(Path(folder), given.peers.absolute(), given.command)
        if given.only != "held":
            measure_calls(report, bench, sizes, parts, names)
        if "held" in parts:
            measure_held(report, bench, sizes)
            if "thunderagent" in names:
                measure_held_by_peer(report, bench, sizes)
    explain(report, parts)
    report.show()


if __name__ == "__main__":
    main()
