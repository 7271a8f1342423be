"""Tests of an engine's faults: each is one line that says what to do, nothing is left running, and
the next start works."""

import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.platform.gpus.test_leases import take_over
from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.tasks.platform.gpus import GpuLost, GpusBusy, lease_gpus, list_gpus, read_inventory
from tutti.tasks.platform.gpus.inventory import GpuClaim
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving.engines import Engine, require_engines
from tutti.tasks.serving.engines import engine as module
from tutti.tasks.serving.engines.flags import VARIABLE
from tutti.tasks.serving.engines.start_failures import explain
from tutti.tasks.serving.processes import ModelsEnvironmentMissing
from tutti.tasks.serving.processes.process import TOKEN, claim_port, stranger_at
from tutti.tasks.serving.registry import Model

DOUBLE = shlex.join([sys.executable, "-m", "tests.serving.vllm_double"])
OUT_OF_MEMORY = """\
(EngineCore pid=7) ERROR 11-23 09:00:00 [core.py:900] torch.OutOfMemoryError: CUDA out of memory. \
Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 79.19 GiB of which 1.06 GiB is free.
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above.
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "loader.py", line 7, in load
KeyError: 'layers.0.mlp.experts.w13_weight'
RuntimeError: Engine core initialization failed. See root cause above.
"""


class Server:
    """Models environment whose vLLM has no model and fails as the test specifies."""

    def __init__(self, folder: Path) -> None:
        self.python, self.script = folder / "python", folder / "fault.sh"
        text = f'#!/bin/sh\n[ ! -f {self.script} ] || . {self.script}\nexec {DOUBLE} "$@"\n'
        self.python.write_text(text)
        self.python.chmod(0o755)

    def fails(self, script: str) -> None:
        """Run a script in place of the server, or before it if the script does not exit."""
        self.script.write_text(script)

    def prints(self, text: str, code: int = 1) -> None:
        log = self.script.with_suffix(".log")
        log.write_text(text)
        self.fails(f"cat {log}; exit {code}\n")

    def works(self) -> None:
        self.script.unlink(missing_ok=True)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    cards = "gpus: [{index: 0, uuid: GPU-a}, {index: 1}, {index: 2}]\n"
    (tmp_path / "gpus.yaml").write_text(cards)
    made = Server(tmp_path)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(made.python))
    monkeypatch.setenv("TUTTI_GPUS", str(tmp_path / "gpus.yaml"))
    monkeypatch.setenv("TUTTI_GPU_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return made


def engine(catalog: Catalog, port: int | None = None, **settings: Any) -> Engine:
    entry: dict[str, Any] = {"provider": "vllm", "checkpoint": PROJECT / "assets" / "pocket"}
    entry |= {"context_tokens": 512, "engine": {"kv_blocks": 8, "gpus": 1, **settings}}
    return Engine("pocket", Model.model_validate(entry), catalog, port)


def failure(catalog: Catalog, **settings: Any) -> list[str]:
    failed = engine(catalog, **settings)
    with pytest.raises(EngineFailed) as error:
        failed.start()
    assert_nothing_is_left(catalog)
    return str(error.value).splitlines()


def assert_nothing_is_left(catalog: Catalog) -> None:
    """Check that there is no row of a process, no process with a token of this store, and no held
    GPU."""
    assert catalog.rows(sa.select(cat.processes)) == []
    assert {each.state for each in list_gpus(catalog, read_inventory(catalog.home))} == {"free"}
    mine, here = f"{catalog.home.logs}/".encode(), str(os.getpid())
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and entry != here:
            try:
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            assert mine not in command, f"{TOKEN}: {command!r} is left running"


def assert_next_start_works(catalog: Catalog, server: Server) -> None:
    server.works()
    with engine(catalog) as address:
        assert address.url.startswith("http://127.0.0.1:")
    assert_nothing_is_left(catalog)


def test_out_of_memory_at_the_start(catalog: Catalog, server: Server) -> None:
    """The cause is in the middle of the log; the line has it, with three fixes."""
    server.prints(OUT_OF_MEMORY)
    first, *rest = failure(catalog)
    assert first.startswith(
        "models.pocket: vllm exited with code 1: out of memory (torch.OutOfMemoryError: CUDA out "
        "of memory. Tried to allocate 2.32 GiB."
    )
    for way in ("`tutti gpus`", "context_tokens", "engine.memory_share", "tensor_parallel"):
        assert way in first
    assert "Engine core initialization failed" in "\n".join(rest)
    assert_next_start_works(catalog, server)


@pytest.fixture
def llama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fake of llama.cpp's server, which responds to health checks, on a machine without a
    models environment."""
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", "/none/python")
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {DOUBLE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(program))
    return program


def test_llama_cpps_program_is_missing(catalog: Catalog, server: Server, llama: Path) -> None:
    """The program is located by a variable; the entry needs nothing else of the models
    environment."""
    content = llama.read_text()
    llama.unlink()
    with pytest.raises(ModelsEnvironmentMissing) as error:
        engine(catalog, server="llama.cpp").start()
    assert str(error.value).startswith(f"no llama-server at {llama}; install llama.cpp, or set")
    assert_nothing_is_left(catalog)
    llama.write_text(content)
    llama.chmod(0o755)
    require_engines([engine(catalog, server="llama.cpp").model])
    with engine(catalog, server="llama.cpp"):
        pass


def test_llama_cpps_program_cannot_be_run(catalog: Catalog, server: Server, llama: Path) -> None:
    llama.chmod(0o644)
    first = failure(catalog, server="llama.cpp")[0]
    assert first.startswith("models.pocket: llama.cpp exited with code 127: its program cannot be")
    assert f"(cannot start {llama}: [Errno 13] Permission denied" in first
    llama.chmod(0o755)
    with engine(catalog, server="llama.cpp"):
        pass


def test_a_traceback_at_the_start(catalog: Catalog, server: Server) -> None:
    server.prints(TRACEBACK)
    first, *rest = failure(catalog)
    said = "models.pocket: vllm exited with code 1: KeyError: 'layers.0.mlp.experts.w13_weight'"
    assert first == said
    assert rest[-1].startswith("(whole log: ")
    assert_next_start_works(catalog, server)


def test_a_server_that_hangs_in_its_warm_up(catalog: Catalog, server: Server) -> None:
    """The server and its children are ended, and the field that extends the limit is named."""
    server.fails("echo capturing graphs; sleep 1000 & sleep 1000\n")
    first, *rest = failure(catalog, start_timeout_s=1)
    said = "vllm was not ready in time; engine.start_timeout_s gives it longer"
    assert first == f"models.pocket: {said}"
    assert "capturing graphs" in "\n".join(rest)
    assert_next_start_works(catalog, server)


def test_a_server_that_is_killed(catalog: Catalog, server: Server) -> None:
    server.fails("kill -9 $$\n")
    first = failure(catalog)[0]
    assert first.startswith("models.pocket: vllm exited with code 137: it was killed, by a user or")
    assert_next_start_works(catalog, server)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("ValueError: Free memory on device cuda:0 (9.1/79.2 GiB) is less", "out of memory (Val"),
        ("ValueError: No available memory for the cache blocks.", "lower context_tokens"),
        ("ggml_cuda: cudaMalloc failed: out of memory", "out of memory (ggml_cuda"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "the disk is full (OSError"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "the NVIDIA driver does not ser"),
        ("killed", "vllm exited with code 1 and named no error"),
    ],
)
def test_known_causes(log: str, said: str) -> None:
    assert said in explain("vllm", 1, f"INFO starting\n{log}\nINFO ended\n")


@pytest.fixture
def thief() -> Iterator[int]:
    """Run a process that responds at a port as another user's server would, and yield the port."""
    command = [*shlex.split(DOUBLE), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=PROJECT
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def test_a_stolen_port_is_never_taken_for_the_engine(
    catalog: Catalog, server: Server, thief: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener responds like a healthy engine. An engine that may use any port takes another;
    one with a fixed port reports the listener."""
    ports = iter([thief, 0])
    monkeypatch.setattr(module, "claim_port", lambda port: next(ports) or claim_port(None))
    started = engine(catalog)
    assert started.port == thief
    with started as address:
        assert address.url != f"http://127.0.0.1:{thief}"
        assert stranger_at(started.port, os.getpid()) is None
    monkeypatch.setattr(module, "claim_port", lambda port: port)
    with pytest.raises(EngineFailed) as error:
        engine(catalog, port=thief).start()
    assert f"models.pocket: port {thief} was taken by" in str(error.value)
    assert "\n" not in str(error.value)
    monkeypatch.setattr(module, "claim_port", claim_port)
    assert_next_start_works(catalog, server)


def test_a_port_that_is_always_stolen_is_given_up(
    catalog: Catalog, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.prints("OSError: [Errno 98] Address already in use\n")
    assert "was taken by another process while the engine started" in failure(catalog)[0]
    assert len(list(catalog.home.logs.glob("vllm-*.log"))) == module.PORT_TRIES
    assert_next_start_works(catalog, server)


def test_a_listener_is_known_by_its_process() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert stranger_at(port, os.getpid()) is None
        assert stranger_at(port, 1 << 30) == os.getpid()


async def test_a_gpu_that_is_taken_away_ends_the_engine(catalog: Catalog, server: Server) -> None:
    """Another run has the GPU: processes on it are ended, and the error names the GPU."""
    started = engine(catalog)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GpuClaim", _short_claim)
        started.start()
    take_over(catalog)
    with pytest.raises(GpuLost, match=r"gpu 0 was taken over by another run.*Run the same command"):
        await started.watch()
    started.stop()
    assert_next_start_works(catalog, server)


def _short_claim(gpus: Any, work: str) -> GpuClaim:
    return GpuClaim(gpus, work=work, lease_s=1.0)


def test_a_run_that_is_stopped_waits_for_no_card(catalog: Catalog, server: Server) -> None:
    told: list[str] = []
    ended: list[BaseException] = []
    waiting = engine(catalog, gpus=3)
    waiting.on_wait = told.append

    def start() -> None:
        try:
            waiting.start()
        except GpusBusy as error:
            ended.append(error)

    with lease_gpus(catalog, GpuClaim(1, "run:1", "training adapter:9")):
        thread = threading.Thread(target=start)
        thread.start()
        deadline = time.monotonic() + 60
        while not told and time.monotonic() < deadline:
            time.sleep(0.02)
        waiting.stop()
        thread.join(60)
    assert told[0].startswith("waiting for 3 GPUs: gpu 0 held by run:1 (training adapter:9)")
    assert "not waited for any longer" in str(ended[0])
    assert_next_start_works(catalog, server)


def test_two_kept_engines_of_one_id(catalog: Catalog, server: Server) -> None:
    """Two keepers start one each; two runs use one each, and a third starts its own."""
    keepers = [engine(catalog) for _ in range(2)]
    for keeper in keepers:
        keeper.kept = True
    with keepers[0] as one, keepers[1] as two:
        runs = [engine(catalog) for _ in range(3)]
        with runs[0] as first, runs[1] as second, runs[2] as third:
            assert {first.url, second.url} == {one.url, two.url}
            assert third.url not in (one.url, two.url)
    assert_nothing_is_left(catalog)
