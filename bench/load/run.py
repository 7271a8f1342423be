"""The client as an instrument: ``make bench-load``. A mock whose first token comes after 200.0 ms,
closed loops of 256 and 1,024 sessions, streams; at 256 the peers in the same run, in turn.

The rate is measured by the mock, relative to the ideal rate (concurrency / the mock's median
response time). Calls in flight and times to first token are those reported by each generator. For
all of them the first two and the last two calls per session are left out. Our error is measured
from the intended start, which for a session is the end of its previous answer; the error from
sending is given beside it. The four figures without a number are the worse of both concurrencies.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from bench.gateway.process import Server, free_port
from bench.load.calls import Call, MockMeasurements, ReportedLoad, error_ratio, judged, served
from bench.load.peers import PEERS, Job
from bench.report import Report, Target
from bench.scheduling.peers import PeerMissing, Peers
from tutti import storage

CONCURRENCIES = (256, 1024)
PEERS_AT = 256
TIMEOUT_S = 120.0
TARGETS = {
    "held": Target(0.98, least=True),
    "ideal_rate": Target(0.94, least=True),
    "ttft_median_error": Target(0.03),
    "ttft_p99_error": Target(0.15),
}


@dataclass(frozen=True)
class Load:
    """One load, as measured by its generator and the mock."""

    sessions: int
    judged: ReportedLoad
    served: MockMeasurements
    cpu_us: float = 0.0
    """CPU per call, for our client."""

    @property
    def figures(self) -> dict[str, float]:
        """The four that have targets."""
        ideal = self.sessions / self.served.service_s
        return {
            "held": self.judged.held / self.sessions,
            "ideal_rate": self.served.per_s / ideal,
            "ttft_median_error": error_ratio(self.judged.due_median_s),
            "ttft_p99_error": error_ratio(self.judged.due_p99_s),
        }


class Mock:
    """The mock engine, while the bench runs."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "bench.load.engine", str(port)]
        anywhere = sorted(os.sched_getaffinity(0))  # some peers are several processes
        self.server = Server(command, folder / "mock.log", anywhere)

    def times(self) -> list[tuple[float, float]]:
        """The times at which it read and wrote, since the last request."""
        with urllib.request.urlopen(f"{self.url}/times", timeout=TIMEOUT_S) as answer:
            return [(read, written) for read, written in orjson.loads(answer.read())]


def ours(mock: Mock, sessions: int, seconds: float) -> Load:
    """Our client's load, from a process of its own."""
    command = [sys.executable, "-m", "bench.load.client", mock.url, str(sessions), str(seconds)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=TIMEOUT_S + seconds)
    said = orjson.loads(ran.stdout)
    calls = [Call(*call) for call in said["calls"]]
    cpu_us = said["cpu_s"] / len(calls) * 1e6
    return Load(sessions, judged(calls, sessions), served(mock.times(), sessions), cpu_us)


def theirs(name: str, mock: Mock, seconds: float, peers: Peers) -> Load:
    """A peer's. Raises PeerMissing."""
    with tempfile.TemporaryDirectory(prefix="tutti-load-") as folder:
        calls = PEERS[name](Job(mock.url, PEERS_AT, seconds, Path(folder)), peers)
    try:
        return Load(PEERS_AT, judged(calls, PEERS_AT), served(mock.times(), PEERS_AT))
    except ValueError as error:
        raise PeerMissing(f"{name}: {error}") from error


class AlternatingLoads:
    """All loads of a run: alternating, in reverse order in every second repeat."""

    def __init__(self, mock: Mock, seconds: float, names: Sequence[str], report: Report) -> None:
        self._mock, self._seconds, self._names, self._report = mock, seconds, names, report
        self._peers = Peers(storage.current_home().root.absolute() / "bench" / "peers")
        self.ours: dict[int, list[Load]] = {sessions: [] for sessions in CONCURRENCIES}
        self.theirs: dict[str, list[Load]] = {name: [] for name in names}
        self._missing: set[str] = set()

    def run(self, repeats: int) -> None:
        """Measure."""
        first, second = CONCURRENCIES
        peers = [partial(self._peer, name) for name in self._names]
        loads = [partial(self._one, first), *peers, partial(self._one, second)]
        for repeat in range(repeats):
            for load in loads if repeat % 2 == 0 else reversed(loads):
                load()

    def _one(self, sessions: int) -> None:
        self.ours[sessions].append(ours(self._mock, sessions, self._seconds))

    def _peer(self, name: str) -> None:
        if name in self._missing:
            return
        try:
            self.theirs[name].append(theirs(name, self._mock, self._seconds, self._peers))
        except PeerMissing as error:
            self._missing.add(name)
            self.theirs[name].clear()
            self._report.note(f"{name} is absent: {error}")
            self._mock.times()  # forget the calls that it sent


def enter(
    report: Report, ours: Mapping[int, Sequence[Load]], theirs: Mapping[str, Sequence[Load]]
) -> None:
    """Enter the figures of our loads, by sessions, and of the peers, by name: one per repeat."""
    for figure, target in TARGETS.items():
        each = [[load.figures[figure] for load in loads] for loads in ours.values()]
        worse = min if target.least else max
        both = [worse(values) for values in zip(*each, strict=True)]
        report.figure(f"{figure}_ratio", both, target)
    for sessions, loads in ours.items():
        for figure in TARGETS:
            values = [load.figures[figure] for load in loads]
            report.figure(f"{figure}_{sessions}_ratio", values)
        sent = [load.judged for load in loads]
        name = f"ttft_{{}}_error_sent_{sessions}_ratio"
        report.figure(name.format("median"), [error_ratio(one.sent_median_s) for one in sent])
        report.figure(name.format("p99"), [error_ratio(one.sent_p99_s) for one in sent])
        report.figure(f"calls_{sessions}_per_s", [load.served.per_s for load in loads])
        report.figure(f"cpu_a_call_{sessions}_us", [load.cpu_us for load in loads])
        late = max(load.served.late_p99_s for load in loads) * 1e3
        report.note(f"at {sessions} the mock itself was {late:.1f} ms late at its p99, at most")
    for name, loads in theirs.items():
        if loads:
            for figure in TARGETS:
                report.peer(name, f"{figure}_ratio", [load.figures[figure] for load in loads])
            report.peer(name, "calls_per_s", [load.served.per_s for load in loads])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="of each load")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS), help="which, by commas; none: ''")
    given = parser.parse_args(arguments)
    report = Report("load", given.repeats)
    names = [name for name in given.peers.split(",") if name]
    with tempfile.TemporaryDirectory(prefix="tutti-load-") as folder:
        mock = Mock(Path(folder))
        with mock.server:
            mock.server.wait_ready(f"{mock.url}/health")
            turns = AlternatingLoads(mock, given.seconds, names, report)
            turns.run(given.repeats)
    enter(report, turns.ours, turns.theirs)
    report.show()


if __name__ == "__main__":
    main()
