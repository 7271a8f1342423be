"""Tests of `tutti doctor`: each probe detects presence and absence, within its time limit and
without printing secrets."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.ports import free_ports
from tutti.cli.setup import doctor
from tutti.cli.setup.doctor import Check, Finding, Place, Probe, examine, exit_code, render
from tutti.tasks import sandbox
from tutti.tasks.platform.project import PROJECT

SECRET = "sk-never-shown-4711"


def _place(folder: Path, models_python: Path = Path("absent"), quick: bool = False) -> Place:
    return Place(folder / ".tutti", folder, models_python, quick)


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def _shown(checks: list[Check]) -> str:
    screen = StringIO()
    Console(file=screen, width=400).print(render(checks))
    return screen.getvalue()


@contextmanager
def _server(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/api/health" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Suppress the log."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    # Its default poll of 0.5 s would be waited for at shutdown.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write_safetensors(path: Path, cut: int = 0) -> None:
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        }
    ).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content[: len(content) - cut])


def test_python_too_old_is_missing_and_a_newer_one_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, status in (
        ((3, 10, 9), "missing"),
        ((3, 11, 7), "ok"),
        ((3, 13, 1), "ok"),
        ((3, 14, 0), "warning"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "version_info", version)
            found = doctor.look_python(_place(tmp_path))
        assert found.status == status
        assert bool(found.fix) == (status != "ok")


def test_packages_that_import_are_told_from_those_that_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("json", "no_such_package"))
    found = doctor.look_packages(_place(tmp_path))
    assert found.status == "missing" and found.fix == "make setup"
    assert "no_such_package does not import (ModuleNotFoundError" in found.found
    assert "json 2" in found.found
    monkeypatch.setattr(doctor, "PACKAGES", ("json",))
    assert doctor.look_packages(_place(tmp_path)).status == "ok"


def test_absent_models_environment_is_missing_with_its_fix(tmp_path: Path) -> None:
    found = doctor.look_models(_place(tmp_path, tmp_path / "absent" / "python"))
    assert found.status == "missing"
    assert found.fix == "make setup" and "TUTTI_MODELS_PYTHON" in found.found


def test_an_installed_package_names_its_own_pinned_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no Makefile; the commands are printed below the table and are not wrapped in it."""
    monkeypatch.setattr(doctor, "FIXES", doctor.installed_fixes(cuda=False))
    found = doctor.look_models(_place(tmp_path, tmp_path / "absent" / "python"))
    assert "make" not in found.fix and found.fix.count("\n") == 2
    *_, install = found.fix.splitlines()
    named = [Path(word) for word in shlex.split(install) if word.endswith(".txt")]
    assert len(named) == 3 and all(path.is_file() for path in named)
    check = Check("models environment", "missing", found.found, found.fix, required=False)
    assert "see below" in _shown([check]) and install not in _shown([check])
    assert doctor.long_fixes([check, Check("home", "missing", "", "x")]).count(install) == 1


CPU_BUILD = "vllm 0.32.0, torch 2.13.0, CUDA not available"


def test_models_environment_that_does_not_import_vllm_says_why(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", "echo 'ImportError: libcuda.so.1' >&2; exit 1")
    found = doctor.look_models(_place(tmp_path, python))
    assert found.status == "missing" and "libcuda.so.1" in found.found


def test_models_environment_that_works_shows_versions_and_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json.dumps([{"vllm": "0.32.0", "torch": "2.13.0"}, {}, False])
    python = _script(tmp_path / "python", f"echo 'a log line'; echo '{answer}'")
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi there
    found = doctor.look_models(_place(tmp_path, python))
    assert found == Finding("ok", f"{CPU_BUILD}: no NVIDIA driver is here")
    _script(tmp_path / "nvidia-smi", "exit 0")
    assert doctor.look_models(_place(tmp_path, python)).status == "warning"


def test_quick_does_not_import_vllm(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", f"touch {tmp_path / 'was_run'}")
    found = doctor.look_models(_place(tmp_path, python, quick=True))
    assert found.status == "ok" and "not tested" in found.found
    assert not (tmp_path / "was_run").exists()


def test_command_past_its_bound_is_killed_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    slow = _script(tmp_path / "slow", f"sleep 600 & echo $! > {child}; wait")
    lines, failure = doctor.ask([str(slow)], 1.0)
    assert not lines and "no answer" in failure
    stat = Path(f"/proc/{child.read_text().strip()}/stat")
    # Dead at once; until its new parent reaps it, a zombie (Z) may be seen.
    assert not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] in ("Z", "X")


def test_no_gpu_is_a_warning_and_a_gpu_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.look_gpu(_place(tmp_path)).status == "warning"
    _script(tmp_path / "nvidia-smi", "echo 'NVIDIA H200, 143771 MiB, 570.1'")
    assert doctor.look_gpu(_place(tmp_path)) == Finding("ok", "NVIDIA H200, 143771 MiB, 570.1")
    _script(tmp_path / "nvidia-smi", "echo 'Driver/library version mismatch'; exit 18")
    broken = doctor.look_gpu(_place(tmp_path))
    assert broken.status == "warning" and "mismatch" in broken.found


def test_home_is_looked_at_but_not_made(tmp_path: Path) -> None:
    place = _place(tmp_path)
    assert doctor.look_home(place).status == "ok"
    assert not place.home.exists() and not list(tmp_path.iterdir())


def test_home_under_a_file_is_missing_with_its_fix(tmp_path: Path) -> None:
    (tmp_path / ".tutti").write_text("not a folder")
    found = doctor.look_home(_place(tmp_path))
    assert found.status == "missing" and found.fix == "TUTTI_HOME=/other/disk"


def test_home_on_a_read_only_disk_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    found = doctor.look_home(_place(tmp_path))
    assert found.status == "missing" and "Read-only file system" in found.found


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where the permission bits forbid it")
def test_home_without_write_permission_is_missing(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    found = doctor.look_home(_place(tmp_path))
    tmp_path.chmod(0o755)
    assert found.status == "missing" and "Permission denied" in found.found


def test_small_machine_is_warned_of_and_a_full_disk_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _place(tmp_path)
    monkeypatch.setattr(doctor, "MIN_MEMORY_GB", 1e9)
    monkeypatch.setattr(doctor, "MIN_DISK_GB", 1e9)
    assert doctor.look_machine(place).status == "warning"
    found = doctor.look_home(place)
    assert found.status == "missing" and found.fix == "TUTTI_HOME=/other/disk"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b"true", "ok"),
        (200, b"<html>hello</html>", "warning"),
        (503, b"true", "warning"),
        (404, b"", "warning"),
    ],
)
def test_prefect_is_told_from_another_server(
    status: int, body: bytes, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _server(status, body) as port:
        monkeypatch.setattr(doctor, "PREFECT_PORT", port)
        found = doctor.look_port(_place(tmp_path))
    assert found.status == expected
    assert ("healthy Prefect server is at" in found.found) == (expected == "ok")
    assert bool(found.fix) == (expected != "ok")


def test_free_port_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PREFECT_PORT", free_ports())
    found = doctor.look_port(_place(tmp_path))
    assert found.status == "ok" and "free" in found.found


def test_sandbox_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for level, status in (("bubblewrap", "ok"), ("namespaces", "ok"), ("limits", "warning")):
        monkeypatch.setattr(sandbox, "level_for_models", lambda level=level: level)
        found = doctor.look_sandbox(_place(tmp_path))
        assert found.status == status and level in found.found
    monkeypatch.setattr(sandbox, "level_for_models", _no_level)
    found = doctor.look_sandbox(_place(tmp_path))
    assert (found.status, found.found) == ("warning", "no walls here")
    assert found.fix == "apt-get install bubblewrap"


def _no_level() -> str:
    raise sandbox.SandboxUnavailable("no walls here")


def test_checkpoint_must_be_whole_and_have_a_card(tmp_path: Path) -> None:
    place, weights = _place(tmp_path), tmp_path / "assets" / "pocket" / "model.safetensors"
    assert "no such file" in doctor.look_checkpoint(place).found
    _write_safetensors(weights)
    assert "no card" in doctor.look_checkpoint(place).found
    (weights.parent / "card.json").write_text("{}")
    assert doctor.look_checkpoint(place).status == "ok"
    _write_safetensors(weights, cut=3)
    assert "bytes, at least" in doctor.look_checkpoint(place).found
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 8\n")
    pointer = doctor.look_checkpoint(place)
    assert pointer.status == "missing" and pointer.fix == "git checkout -- assets/pocket"


def test_registry_must_parse_and_name_a_model(tmp_path: Path) -> None:
    place, path = _place(tmp_path), tmp_path / "deployments" / "models.yaml"
    absent = doctor.look_registry(place)
    assert absent.status == "missing" and absent.fix
    path.parent.mkdir()
    for text in ("", "models: {}", "- a list", "models: [", f"models: {{a: {SECRET}\n: ]"):
        path.write_text(text)
        found = doctor.look_registry(place)
        assert found.status == "missing" and found.fix == f"edit {path}", text
        assert SECRET not in found.found
    path.write_text("models:\n  pocket: {provider: openai, context_tokens: 1000}\n")
    assert doctor.look_registry(place) == Finding("ok", "1 named: pocket")


def test_tau2_is_missing_or_named_with_its_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_HARNESS_TAU2", str(tmp_path / "absent"))
    absent = doctor.look_tau2(_place(tmp_path))
    assert absent.status == "missing" and "tau2" in absent.fix and "absent" in absent.found

    monkeypatch.setenv("TUTTI_HARNESS_TAU2", sys.executable)  # which has no tau2
    assert "no module tau2" in doctor.look_tau2(_place(tmp_path)).found

    checkout = tmp_path / "a checkout"
    source = checkout / "src" / "tau2" / "__init__.py"
    answer = _script(tmp_path / "python", f"echo 1.0.1 '{source}'")
    monkeypatch.setenv("TUTTI_HARNESS_TAU2", str(answer))
    bare = doctor.look_tau2(_place(tmp_path))
    assert bare.status == "warning" and "not from a checkout" in bare.found
    (checkout / "data" / "tau2" / "domains").mkdir(parents=True)
    whole = doctor.look_tau2(_place(tmp_path))
    assert whole == Finding("ok", f"tau2 1.0.1, checkout {checkout}: use it as --source")


def test_lean_is_missing_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUTTI_LEAN_PROJECT", raising=False)
    monkeypatch.delenv("TUTTI_LEAN_COMMAND", raising=False)
    absent = doctor.look_lean(_place(tmp_path))
    assert absent.status == "missing" and "TUTTI_LEAN_PROJECT" in absent.found
    assert "lake exe cache get" in absent.fix and "\n" not in absent.found
    shell = "/bin/sh -c 'echo Lean (version 4.12.0)' lean".replace("(", "\\(").replace(")", "\\)")
    monkeypatch.setenv("TUTTI_LEAN_COMMAND", shell)
    found = doctor.look_lean(_place(tmp_path))
    assert found == Finding("ok", "Lean (version 4.12.0) at /bin/sh")


def test_no_keys_is_a_warning_and_an_empty_key_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in doctor.PROVIDER_KEYS:
        monkeypatch.setenv(name, "")
    assert doctor.look_keys(_place(tmp_path)).status == "warning"
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    found = doctor.look_keys(_place(tmp_path))
    assert found.status == "ok"
    assert "TAVILY_API_KEY set" in found.found and "AZURE_OPENAI_API_KEY not set" in found.found


def test_the_value_of_a_key_is_nowhere_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in doctor.PROVIDER_KEYS:
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setattr(doctor, "PACKAGES", ("json",))
    talkative = _script(tmp_path / "python", "env >&2; exit 1")  # tells all it was given
    checks = examine(tmp_path / ".tutti", tmp_path, talkative)
    assert [check.name for check in checks] == [probe.name for probe in doctor.PROBES]
    assert SECRET not in _shown(checks) + repr(checks)
    environment = subprocess.run(["env"], capture_output=True, text=True).stdout
    assert environment.count(SECRET) == len(doctor.PROVIDER_KEYS) > 0
    assert SECRET not in "".join(doctor.ask(["env"], 5.0)[0])


def test_stuck_and_crashing_probes_cost_only_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(place: Place) -> Finding:
        released.wait(60)
        return Finding("ok", "too late")

    def crash(place: Place) -> Finding:
        raise ValueError("odd machine")

    probes = (
        Probe("stuck", hang, bound_s=0.05),
        Probe("crash", crash, required=False),
        Probe("fine", lambda place: Finding("ok", "here")),
    )
    monkeypatch.setattr(doctor, "PROBES", probes)
    stuck, crashed, fine = examine(tmp_path, tmp_path, tmp_path)
    released.set()
    assert stuck.status == "missing" and "no answer within 0.05 s" in stuck.found
    assert crashed.status == "missing" and "ValueError: odd machine" in crashed.found
    assert not crashed.required
    assert fine == Check("fine", "ok", "here")


def test_exit_code_counts_only_what_is_required() -> None:
    fine, warned = Check("a", "ok", ""), Check("b", "warning", "")
    optional, lacking = Check("c", "missing", "", required=False), Check("d", "missing", "")
    assert exit_code([]) == exit_code([fine, warned, optional]) == 0
    assert exit_code([fine, lacking]) == 1


def test_report_for_people_and_for_programs() -> None:
    checks = [
        Check("disk", "missing", "0.1 GB free [/dev/sda]", "TUTTI_HOME=/other/disk"),
        Check("models", "missing", "no Python", "make setup", required=False),
    ]
    shown = _shown(checks)
    assert "[/dev/sda]" in shown and "TUTTI_HOME=/other/disk" in shown
    assert "missing (optional)" in shown


def test_importing_the_module_loads_nothing_heavy() -> None:
    heavy = "{'rich', 'yaml', 'asyncio', 'http.client', 'prefect', 'duckdb'}"
    code = f"import sys, tutti.cli.setup.doctor; print(sorted({heavy} & set(sys.modules)))"
    project = PROJECT
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=project, check=True
    )
    assert done.stdout.strip() == "[]"
