"""Tests of the load bench: the clock of its mock, its acceptance rule, and the parsing of peers'
output."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.calls import SKIPPED, Call, error_ratio, judged, served
from bench.load.client import load
from bench.load.engine import Clock, Wire
from bench.load.peers import START_S, Job, aiperf, guidellm, vllm_bench_serve
from bench.load.run import TARGETS, Load, enter
from bench.load.stream import stream
from bench.load.wire import CHUNKS, DELAY_S, PROMPT, REQUEST
from bench.report import Report
from bench.scheduling.peers import PeerMissing
from tutti.tasks.agents.models.client import COMPLETIONS, Client


@pytest.fixture
async def mock() -> AsyncIterator[tuple[Clock, str]]:
    """Run the mock engine in this process and return its clock and URL."""
    loop = asyncio.get_running_loop()
    clock = Clock()
    server = await loop.create_server(lambda: Wire(clock), "127.0.0.1", 0)
    yield clock, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    clock.close()


async def test_the_mock_is_never_early_and_streams_its_chunks(mock: tuple[Clock, str]) -> None:
    """Timing is checked by the mock's clock and the client's, for a stream and for a response
    without streaming."""
    clock, url = mock
    async with Client(url) as client:
        streamed = await stream(client, [], json.dumps(REQUEST).encode())
        whole = await client.post(COMPLETIONS, [], b'{"stream": false}')
    assert streamed.answer.body.count(b'"content"') == CHUNKS
    ttft_s = streamed.ttft_s()
    assert ttft_s is not None and ttft_s >= DELAY_S
    assert json.loads(whole.body)["usage"]["completion_tokens"] == CHUNKS
    assert len(clock.times) == 2
    assert all(written - read >= DELAY_S for read, written in clock.times)


async def test_sessions_call_one_after_the_other(mock: tuple[Clock, str]) -> None:
    """A session's call is due when its previous response has ended, and none starts after the end
    of the run."""
    calls = await load(mock[1], 3, 0.5)
    assert 3 <= len(calls) <= 9
    assert all(call.due <= call.sent < call.first_token <= call.ended for call in calls)
    assert {call.due for call in calls[3:]} <= {call.ended for call in calls}
    began = min(call.due for call in calls)
    assert max(call.due for call in calls) < began + 0.5
    assert min(call.ended for call in calls[-3:]) >= began + 0.5


def loop_of(sessions: int, rounds: int, late_s: float = 0.0) -> list[Call]:
    """Return a closed loop whose sends are `late_s` late and whose first tokens arrive on time."""
    calls = []
    for session in range(sessions):
        due = session * 0.001
        for _ in range(rounds):
            sent = due + late_s
            ended = sent + DELAY_S
            calls.append(Call(due, sent, ended, ended))
            due = ended
    return calls


@given(st.integers(1, 40), st.integers(2 * SKIPPED + 1, 20), st.floats(0, 1))
def test_a_perfect_client_has_no_error_and_a_late_one_its_lateness(
    sessions: int, rounds: int, late_s: float
) -> None:
    """Measured from the send, the error is 0; measured from the intended start, it is the lateness,
    and the concurrency is lower by that share."""
    found = judged(loop_of(sessions, rounds, late_s), sessions)
    assert found.sent_median_s == pytest.approx(DELAY_S)
    assert found.due_median_s == pytest.approx(DELAY_S + late_s)
    assert found.due_p99_s == pytest.approx(DELAY_S + late_s)
    assert found.held == pytest.approx(sessions * DELAY_S / (DELAY_S + late_s))
    assert found.calls == sessions * (rounds - 2 * SKIPPED)


def test_start_and_end_do_not_count() -> None:
    """Slow connections at the start and slow responses at the end do not change the figures."""
    calls = loop_of(10, 12)
    odd = [call._replace(first_token=call.ended + 9, ended=call.ended + 9) for call in calls]
    order = sorted(range(len(calls)), key=lambda n: calls[n].sent)
    mixed = list(calls)
    for n in [*order[: SKIPPED * 10], *order[-SKIPPED * 10 :]]:
        mixed[n] = odd[n]
    assert judged(mixed, 10).due_p99_s == pytest.approx(DELAY_S)


@pytest.mark.parametrize("spread_s", [0.0, 0.01, 0.2])
def test_the_rate_of_waves_is_not_more_than_it_is(spread_s: float) -> None:
    """This holds for any spread of a wave's calls, because a wave's length includes the pause that
    follows it."""
    times = [
        (wave * 0.2 + n * spread_s / 64, wave * 0.2 + n * spread_s / 64 + 0.201)
        for wave in range(20)
        for n in range(64)
    ]
    found = served(times, 64)
    assert found.per_s == pytest.approx(320)
    assert found.service_s == pytest.approx(0.201)
    assert found.late_p99_s == pytest.approx(0.001)


def test_too_few_calls_say_nothing() -> None:
    """The result is empty if fewer calls than one per session remain."""
    with pytest.raises(ValueError, match="40 calls of 10 sessions"):
        judged(loop_of(10, 4), 10)
    with pytest.raises(ValueError, match="too few"):
        served([], 10)


def test_an_error_is_one_whichever_way() -> None:
    """Being too early counts as much as being too late."""
    assert error_ratio(0.22) == pytest.approx(0.1)
    assert error_ratio(0.18) == pytest.approx(0.1)


def load_at(sessions: int, late_s: float) -> Load:
    calls = loop_of(sessions, 8, late_s)
    times = [(call.sent, call.first_token) for call in calls]
    return Load(sessions, judged(calls, sessions), served(times, sessions), 60.0)


def test_the_report_has_what_the_contract_names() -> None:
    """The report has the worse figure of the two concurrencies and omits a peer without results."""
    report = Report("load", 2)
    ours = {256: [load_at(256, 0.0)] * 2, 1024: [load_at(1024, 0.02)] * 2}
    enter(report, ours, {"aiperf": [load_at(256, 0.1)] * 2, "guidellm": []})
    said = report.result()
    figures = said["figures"]
    assert {f"{name}_ratio" for name in TARGETS} <= figures.keys()
    assert figures["held_ratio"] == figures["held_1024_ratio"] < figures["held_256_ratio"]
    assert figures["ttft_median_error_ratio"] == pytest.approx(0.1)
    assert figures["ttft_median_error_sent_1024_ratio"] == pytest.approx(0)
    assert said["peers"].keys() == {"aiperf"}
    assert said["peers"]["aiperf"]["ttft_median_error_ratio"] == pytest.approx(0.5)


class Written:
    """Environments of peers whose programs a test provides."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def program(self, source: str) -> Path:
        """Write a Python program and return its path."""
        path = self._folder / "peer"
        path.write_text(f"#!{sys.executable}\n{source}")
        path.chmod(0o755)
        return path


AIPERF = {
    "metadata": {"request_start_ns": 1_000_000_000, "request_end_ns": 1_250_000_000},
    "metrics": {"time_to_first_token": {"value": 210.0, "unit": "ms"}},
}
GUIDELLM = {"request_start_time": 1.0, "time_to_first_token_ms": 210.0, "request_end_time": 1.25}
VLLM = {"start_times": [1.0], "ttfts": [0.21], "latencies": [0.25]}
WRITES: dict[str, tuple[Callable[..., list[Call]], str, Any]] = {
    "vllm": (vllm_bench_serve, "result.json", VLLM),
    "aiperf": (aiperf, "out/profile_export.jsonl", AIPERF),
    "guidellm": (
        guidellm,
        "result.json",
        {"benchmarks": [{"requests": {"successful": [GUIDELLM]}}]},
    ),
}


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return a function that replaces all three peers by one program."""

    def make(source: str) -> Any:
        program = Written(tmp_path).program(source)
        monkeypatch.setattr("bench.load.peers.models_python", lambda: program)
        return type("Made", (), {"aiperf": lambda _: program, "guidellm": lambda _: program})()

    return make


def job(tmp_path: Path) -> Job:
    """Return a peer's job in an empty folder."""
    folder = tmp_path / "job"
    folder.mkdir()
    return Job("http://127.0.0.1:1", 4, 2.0, folder)


@pytest.mark.parametrize("name", WRITES)
def test_a_peers_records_are_calls(
    name: str, tmp_path: Path, peers: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call is sent at 1 s, gets its first token after 210 ms and ends after 250 ms; the peer is
    run with the same load."""
    run, path, result = WRITES[name]
    source = f"""
import json, pathlib, sys
path = pathlib.Path({path!r})
path.parent.mkdir(exist_ok=True)
path.write_text({json.dumps(result)!r})
pathlib.Path("told").write_text(json.dumps(sys.argv))
"""
    here = job(tmp_path)
    (call,) = run(here, peers(source))
    assert call == pytest.approx((1.0, 1.0, 1.21, 1.25))
    told = " ".join(json.loads((here.folder / "told").read_text()))
    assert "http://127.0.0.1:1" in told and "4" in told
    if name != "vllm":
        (prompts,) = here.folder.glob("prompts.*")
        assert PROMPT in prompts.read_text()


@pytest.mark.parametrize("name", WRITES)
def test_a_peer_that_ends_badly_is_absent(
    name: str, tmp_path: Path, peers: Callable[[str], Any]
) -> None:
    """The report quotes the last line of its output."""
    with pytest.raises(PeerMissing, match="ended with 3: no such option"):
        WRITES[name][0](job(tmp_path), peers("print('no such option')\nraise SystemExit(3)"))


def test_a_peer_that_hangs_is_ended(
    tmp_path: Path, peers: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processes that it started are killed."""
    assert START_S > 60
    monkeypatch.setattr("bench.load.peers.START_S", -5.0)
    source = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path("child").write_text(str(child.pid))
time.sleep(60)
"""
    here = job(tmp_path)
    with pytest.raises(PeerMissing, match="too long"):
        aiperf(here, peers(source))
    child = int((here.folder / "child").read_text())
    for _ in range(1000):
        if not running(child):
            return
        time.sleep(0.005)
    raise AssertionError("what it started still runs")


def running(pid: int) -> bool:
    """Return whether a process runs; a zombie does not count."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
