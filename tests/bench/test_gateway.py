"""Tests of the gateway's bench: calls of growing prompts, whole responses, every event of a stream,
the CPU time of an ended process tree. Only the last test runs a gateway."""

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from bench.gateway import run as gateway
from bench.gateway.client import Job, run_job
from bench.gateway.cost import cpu_s, pinned, rss_mb
from bench.gateway.engine import EngineConnection, Engines
from bench.gateway.held import HeldResult
from bench.gateway.process import CannotStart, Server, free_port
from bench.gateway.routers import KEPT, Bench, running_engines, running_peer
from bench.gateway.wire import (
    ANSWER,
    ANSWER_BYTES,
    CONTENT,
    LAST_EVENTS,
    MEAN_BODY_BYTES,
    STEPS,
    STREAM_HEAD,
    Programs,
    RouterProtocol,
    bodies,
    body_of,
    length_of,
    release,
    response,
)


def test_calls_are_of_the_size_that_was_said() -> None:
    sizes = [len(body) for body in bodies()]
    assert len(sizes) == STEPS and sizes == sorted(sizes)
    assert sum(sizes) / STEPS == pytest.approx(MEAN_BODY_BYTES, rel=0.01)
    assert len(ANSWER) == ANSWER_BYTES


def test_a_prompt_is_the_one_before_with_the_answer_and_a_message_more() -> None:
    prompts = [orjson.loads(body)["messages"] for body in bodies()]
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
        assert after[len(before)] == {"role": "assistant", "content": CONTENT}
        assert after[-1]["role"] == "user" and len(after) == len(before) + 2
    assert orjson.loads(ANSWER)["choices"][0]["message"]["content"] == CONTENT


def test_streams_ask_for_so_many_tokens_and_usage() -> None:
    body = orjson.loads(next(bodies(tokens=200)))
    assert body["stream"] and body["max_tokens"] == 200 and body["stream_options"]["include_usage"]


@pytest.mark.parametrize(
    ("speech", "where"),
    [
        (RouterProtocol(), b"\r\nX-Program-Id: p00000000\r\n"),
        (KEPT, b"\r\nX-Program-Id: p00000000\r\nX-Tutti-Messages: kept\r\n"),
        (RouterProtocol(header=""), b'\r\n\r\n{"program_id":"p00000000","model"'),
    ],
)
def test_the_program_is_named_where_the_router_looks(speech: RouterProtocol, where: bytes) -> None:
    _, request = Programs(speech).take()
    assert where in request
    assert length_of(request) == len(request)
    assert orjson.loads(body_of(request))["messages"]


def test_a_program_is_released_after_its_last_call_and_another_takes_its_turn() -> None:
    programs = Programs(RouterProtocol(), count=1)
    for _ in range(STEPS - 1):
        program, _ = programs.take()
        assert programs.put_back(program) is None
    program, request = programs.take()
    assert programs.put_back(program) == release("p00000000")
    program, following = programs.take()
    assert program.name == "p00000001" and len(following) < len(request)


def test_without_a_release_the_same_programs_call_for_ever() -> None:
    programs = Programs(RouterProtocol(releases=False), count=2)
    names = []
    for _ in range(3 * STEPS):
        program, _ = programs.take()
        names.append(program.name)
        assert programs.put_back(program) is None
    assert set(names) == {"p00000000", "p00000001"}


def test_a_program_that_waits_is_out_of_the_turn() -> None:
    programs = Programs(RouterProtocol(), count=2)
    first, _ = programs.take()
    second, _ = programs.take()
    assert first is not second and not programs.idle


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Le", None),
        (response(b"{}"), len(response(b"{}"))),
        (response(b"{}")[:-1], len(response(b"{}"))),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", 45),
        (STREAM_HEAD + LAST_EVENTS, -1),
        (b"GET / HTTP/1.1\r\n\r\n", 18),
    ],
)
def test_when_a_message_is_whole(data: bytes, length: int | None) -> None:
    assert length_of(data) == length


def test_engines_take_orders_and_refuse_words_they_do_not_know() -> None:
    engines = Engines()
    assert engines.control({"mode": "delay", "delay_ms": 3}) == {"held": 0, "answered": 0}
    assert engines.behaviour.mode == "delay" and engines.behaviour.delay_ms == 3.0
    with pytest.raises(AttributeError):
        engines.control({"speed": 1})


def test_metrics_are_in_vllms_names() -> None:
    engines = Engines()
    counts = {"prompt": 10, "answered": 2}
    served = EngineConnection(engines, counts)
    engines.held.append((served, 16 * engines.behaviour.blocks // 4))
    told = served.metrics()
    assert 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1048576"' in told
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="mock"} 0.25' in told
    assert 'vllm:num_requests_running{engine="0",model_name="mock"} 1\n' in told


def test_cpu_of_a_tree_counts_what_has_ended_and_what_runs(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.15: pass\n"
    code = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {burn!r}]); "
    code += "print('done', flush=True); time.sleep(60)"
    server = Server([sys.executable, "-c", code], tmp_path / "log", sorted(os.sched_getaffinity(0)))
    with server:
        deadline = time.monotonic() + 60
        while b"done" not in (server.log.read_bytes() if server.log.is_file() else b""):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert 0.14 <= cpu_s(server.owner) < 2.0
        assert 3 < rss_mb(server.owner) < 200
    assert cpu_s(server.owner) == 0


def test_pinned_runs_on_these_cores_only() -> None:
    core = max(os.sched_getaffinity(0))
    code = "import os; print(*os.sched_getaffinity(0))"
    done = subprocess.run(pinned([sys.executable, "-c", code], [core]), capture_output=True)
    assert done.stdout.split() == [str(core).encode()]


def test_a_server_that_ends_says_why(tmp_path: Path) -> None:
    with Server(["sh", "-c", "echo no room; exit 3"], tmp_path / "log", [0]) as server:
        with pytest.raises(CannotStart, match=r"code 3: no room"):
            server.wait_ready(f"http://127.0.0.1:{free_port()}/health")


def test_a_peer_that_cannot_be_had_is_told_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUTTI_PEER_THUNDERAGENT", raising=False)
    bench = Bench(tmp_path, tmp_path)
    with running_engines(bench) as engines:
        with pytest.raises(CannotStart, match="TUTTI_PEER_THUNDERAGENT"):
            with running_peer(bench, engines, "thunderagent"):
                pass


def test_every_call_and_event_comes_through_the_relay(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path)
    with running_engines(bench) as engines, running_peer(bench, engines, "raw_relay") as relay:
        found = run_job(Job(relay.port, relay.server.owner, 4, relay.speech, calls=200, warm=20))
        assert (found.calls, found.sent, found.failed, found.events) == (200, 220, 0, 0)
        assert 0 < found.p50_ms <= found.p99_ms
        found = run_job(Job(relay.port, relay.server.owner, 4, relay.speech, calls=8, tokens=7))
        assert found.events == 8 * 7


def test_a_router_that_does_not_answer_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="load client failed"):
        run_job(Job(free_port(), os.getpid(), 1, RouterProtocol(), calls=1))


def test_what_the_gateway_tells_of_itself_is_taken() -> None:
    found = HeldResult(4900, 200.0, 100.0, 300.0, 2.0, 1.0, 4.0, 9.0, health={})
    figures = gateway.held_figures(found, "")
    assert figures["held_5000_decision_ms"] == 2.0 and figures["max_stall_ms"] == 4.0
    found.health = {"decision_p99_ms": 0.2, "loop_stall_max_ms": 3.0}
    figures = gateway.held_figures(found, "cap_")
    assert figures["held_5000_cap_decision_ms"] == 0.2 and figures["cap_loop_stall_max_ms"] == 3.0


@pytest.mark.e2e
def test_the_bench_prints_what_the_contract_asks(capsys: pytest.CaptureFixture[str]) -> None:
    gateway.main(["--small", "--repeats", "1", "--no-peers"])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["bench"] == "gateway" and set(gateway.TARGETS) <= set(last["figures"])
    assert last["figures"]["recorded_ratio"] == 1.0
    assert set(last["peers"]) == {"raw_relay", "direct"}
