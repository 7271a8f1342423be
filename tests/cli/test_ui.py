"""`make ui` without its server: prefect.yaml is sound, taken ports and dead children are told."""

import importlib
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow

from cli import ui

TEXT = (ui.PROJECT / "prefect.yaml").read_text()
DEPLOYMENTS: dict[str, dict[str, Any]] = {d["name"]: d for d in yaml.safe_load(TEXT)["deployments"]}


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ui, "SIGNALS", ())  # pytest keeps its own handlers
    monkeypatch.delenv("PREFECT_SERVER_API_PORT", raising=False)


def _flow_of(deployment: dict[str, Any]) -> Flow[..., Any]:
    file, name = deployment["entrypoint"].split(":")
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    flow = getattr(module, name)
    assert isinstance(flow, Flow)
    return flow


def test_nightly_runs_on_a_schedule_and_the_sweep_by_hand() -> None:
    assert DEPLOYMENTS["nightly"]["schedules"] == [
        {"cron": "0 2 * * *", "timezone": "UTC", "active": True}
    ]
    assert DEPLOYMENTS["eval-sweep"]["schedules"] == []


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_parameters_of_a_deployment_validate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ui.PROJECT)
    parameters = _flow_of(DEPLOYMENTS[name]).validate_parameters(DEPLOYMENTS[name]["parameters"])
    files = [value for value in parameters.values() if isinstance(value, Path)]
    assert all(file.is_file() and not file.is_absolute() for file in files)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_runs_of_a_deployment_queue_on_a_pool_that_has_a_worker(name: str) -> None:
    assert DEPLOYMENTS[name]["work_pool"]["name"] in ui.POOLS
    assert DEPLOYMENTS[name]["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}


def test_no_path_of_a_machine_is_in_prefect_yaml() -> None:
    assert not re.findall(r"(?:^|[\s\"'=:])[/~][\w.]", TEXT)
    assert re.findall(r"{{ \$(\w+) }}", TEXT) == ["TUTTI_PROJECT"]


def test_flow_runs_find_project_store_and_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUTTI_MODELS_PYTHON", raising=False)
    environment = ui.child_environment(4300, tmp_path)
    assert environment["TUTTI_PROJECT"] == environment["PYTHONPATH"] == str(ui.PROJECT)
    assert environment["TUTTI_HOME"] == str(tmp_path)
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4300/api"
    assert "TUTTI_MODELS_PYTHON" not in environment
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", "models/bin/python")
    environment = ui.child_environment(4300, tmp_path)
    assert environment["TUTTI_MODELS_PYTHON"] == str(tmp_path / "models" / "bin" / "python")


@pytest.mark.parametrize("offset", [0, -1])  # the UI's own port, and the one after it
def test_taken_port_is_one_message_and_starts_nothing(
    offset: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert ui.main(["--port", str(port + offset)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1 and "Traceback" not in told.err
    assert f"port {port} is taken by another process" in told.err
    assert f"PREFECT_SERVER_API_PORT={port + offset + 2} make ui" in told.err
    assert not (tmp_path / "home").exists()


def test_port_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("PREFECT_SERVER_API_PORT", str(port))
        assert ui.main([]) == 1
    assert f"port {port} is taken" in capsys.readouterr().err


def test_dead_child_is_named_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "python"
    broken.write_text(
        f'#!/bin/sh\n[ "$1" = -I ] && exec {sys.executable} "$@"\necho no server\nexit 3\n'
    )
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert ui.main(["--port", str(port)]) == 1
    told = capsys.readouterr().err
    assert "prefect exited with code 3" in told and "no server" in told
