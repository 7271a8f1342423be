"""Tests of `make ui` without its server: prefect.yaml is valid, and taken ports and dead child
processes are reported."""

import importlib
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prefect import Flow

from tests.ports import free_ports
from tutti.cli.base.failures import UsageError
from tutti.cli.setup import deployments, ui
from tutti.tasks.platform.project import PROJECT

TEXT = (PROJECT / "prefect.yaml").read_text()
DEPLOYMENTS: dict[str, dict[str, Any]] = {d["name"]: d for d in yaml.safe_load(TEXT)["deployments"]}


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ui, "SIGNALS", ())  # pytest keeps its own handlers
    monkeypatch.delenv("PREFECT_SERVER_API_PORT", raising=False)


def _flow_of(deployment: dict[str, Any]) -> Flow[..., Any]:
    file, name = deployment["entrypoint"].split(":")
    module = importlib.import_module("tutti." + file.removesuffix(".py").replace("/", "."))
    flow = getattr(module, name)
    assert isinstance(flow, Flow)
    return flow


def test_nightly_is_registered_with_its_files_schedule_and_the_sweep_by_hand(
    tmp_path: Path,
) -> None:
    """Everything else is registered as in prefect.yaml; a night file without a schedule has
    none."""
    wanted = deployments.written(PROJECT, tmp_path / "a")
    content = yaml.safe_load(wanted.file.read_text())
    registered = {each["name"]: each for each in content["deployments"]}
    assert wanted.names == tuple(registered) == tuple(DEPLOYMENTS)
    assert registered["nightly"]["schedules"] == [
        {"cron": wanted.night.schedule, "timezone": "UTC", "active": True}
    ]
    assert registered["eval-sweep"] == DEPLOYMENTS["eval-sweep"]
    assert registered["eval-sweep"]["schedules"] == []
    prefect = {"deployments": [{"name": "nightly", "parameters": {"suite_file": "smoke.yaml"}}]}
    (tmp_path / "prefect.yaml").write_text(yaml.safe_dump(prefect))
    (tmp_path / "smoke.yaml").write_text("name: smoke")
    path = deployments.written(tmp_path, tmp_path / "b").file
    assert yaml.safe_load(path.read_text())["deployments"][0]["schedules"] == []


class Server:
    """Fake of Prefect's API for automations and blocks that records its requests."""

    def __init__(self, *there: str, refuses: bool = False) -> None:
        self.there, self.refuses = list(there), refuses
        self.made: list[Any] = []

    def __call__(self, url: str, body: Any = None, method: str | None = None) -> Any:
        if url.endswith("/automations/filter"):
            return [{"id": each} for each in self.there]
        if method == "DELETE":
            self.there.remove(url.rsplit("/", 1)[1])
            return ""
        if "/block_types/" in url:
            known = ("slug/slack-webhook/", "slug/webhook/")
            there = any(each in url for each in known) and url.endswith("/name/team")
            return {"id": "block-1"} if there else None
        assert url.endswith("/automations/"), url
        self.made.append(body)
        return None if self.refuses else body


def test_a_worse_night_has_an_automation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The automation does nothing until a block is named; if it is edited in the UI, it is not
    changed."""
    monkeypatch.delenv(deployments.BLOCK, raising=False)
    server = Server()
    assert deployments.automate("http://h/api", server)
    (made,) = server.made
    assert made["trigger"]["expect"] == deployments.EVENTS
    assert made["actions"] == [{"type": "do-nothing"}]
    server = Server("edited")
    deployments.automate("http://h/api", server)
    assert not server.made and server.there == ["edited"]


@pytest.mark.parametrize(
    ("kind", "action"), [("slack-webhook", "send-notification"), ("webhook", "call-webhook")]
)
def test_a_block_is_notified_of_a_worse_night(
    kind: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification replaces the automation's earlier action; the block holds the secret, and we
    store only its id."""
    monkeypatch.setenv(deployments.BLOCK, f"{kind}/team")
    server = Server("old")
    deployments.automate("http://h/api", server)
    ((did,),) = [each["actions"] for each in server.made]
    assert (did["type"], did["block_document_id"], server.there) == (action, "block-1", [])


def test_an_unknown_block_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setenv(deployments.BLOCK, "slack-webhook/nobody")
    with pytest.raises(UsageError, match="slack-webhook/nobody: the server has no such block"):
        deployments.automate("http://h/api", Server())


def test_a_server_that_takes_no_automation_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few tries `make ui` continues without the automation."""
    monkeypatch.delenv(deployments.BLOCK, raising=False)
    monkeypatch.setattr(deployments, "time", SimpleNamespace(sleep=lambda _: None))
    server = Server(refuses=True)
    assert not deployments.automate("http://h/api", server)
    assert len(server.made) == deployments.TRIES


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_parameters_of_a_deployment_validate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    parameters = _flow_of(DEPLOYMENTS[name]).validate_parameters(DEPLOYMENTS[name]["parameters"])
    files = [value for value in parameters.values() if isinstance(value, Path)]
    assert all(file.exists() and not file.is_absolute() for file in files)


def _fields(name: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every field of a form, including those of its groups."""
    for group, content in {name: schema, **schema["definitions"]}.items():
        for field, properties in content.get("properties", {}).items():
            yield f"{group}.{field}", properties


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_field_of_a_form_is_described(name: str) -> None:
    schema = _flow_of(DEPLOYMENTS[name]).parameters.model_dump()
    fields = dict(_fields(name, schema))
    assert fields and not schema.get("required")
    assert [field for field, content in fields.items() if not content.get("description")] == []
    given = set(DEPLOYMENTS[name]["parameters"])
    assert given <= set(schema["properties"]), "a parameter that the form does not have"


def test_forms_show_the_choices() -> None:
    """Index kinds and task families are selected, not typed."""

    def schema(name: str, group: str) -> Any:
        found = _flow_of(DEPLOYMENTS[name]).parameters.model_dump()
        return found["definitions"][group]["properties"]

    index = schema("build-index", "IndexParameters")
    assert index["kind"]["enum"] == ["flat", "ivf", "hnsw"]
    families = schema("synthesize-tasks", "TaskRequest")["families"]["items"]["enum"]
    assert "last_parameter" in families
    assert schema("serve-models", "ServeParameters")["minutes"]["default"] > 0, "ends by itself"


def test_a_flow_that_starts_engines_has_a_twin_on_each_pool() -> None:
    """No field of a form moves a run to another pool (docs/ui.md)."""
    twins = {name for name in DEPLOYMENTS if name.endswith("-gpu")}
    assert {name.removesuffix("-gpu") for name in twins} == {
        "nightly", "eval-sweep", "find-concurrency", "serve-models", "train",
        "train-set", "train-policy",
    }  # fmt: skip
    for name in twins:
        ours, cpu = DEPLOYMENTS[name], DEPLOYMENTS[name.removesuffix("-gpu")]
        pools = (ours["work_pool"]["name"], cpu["work_pool"]["name"])
        assert pools == ("gpu", "cpu")
        own = ("name", "work_pool")
        assert all(ours[key] == cpu[key] for key in cpu if key not in own)


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
    assert environment["TUTTI_PROJECT"] == environment["PYTHONPATH"] == str(PROJECT)
    assert environment["TUTTI_HOME"] == str(tmp_path)
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4300/api"
    assert environment["TUTTI_MODELS_PYTHON"] == str(PROJECT / ".venv-models/bin/python")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", "models/bin/python")
    environment = ui.child_environment(4300, tmp_path)
    assert environment["TUTTI_MODELS_PYTHON"] == str(tmp_path / "models" / "bin" / "python")


def _taken(offset: int) -> socket.socket:
    """Return a listening socket for which port + offset is free, both below the ephemeral port
    range."""
    for port in Random().sample(range(20_000, 32_000), 100):
        with suppress(OSError):
            taken = socket.create_server(("127.0.0.1", port))
            try:
                socket.create_server(("127.0.0.1", port + (offset or 1))).close()
            except OSError:
                taken.close()
                raise
            return taken
    pytest.fail("no two free ports side by side among 100")


@pytest.mark.parametrize("offset", [0, -1])  # the UI's own port, and the one after it
def test_taken_port_is_one_message_and_starts_nothing(
    offset: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with _taken(offset) as taken:
        port = taken.getsockname()[1]
        assert ui.main(port + offset) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1 and "Traceback" not in told.err
    assert f"port {port} is taken by another process" in told.err
    assert f"tutti ui --port {port + offset + 2}" in told.err
    assert not (tmp_path / "home").exists()


def test_port_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("PREFECT_SERVER_API_PORT", str(port))
        assert ui.main() == 1
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
    assert ui.main(free_ports(2)) == 1
    told = capsys.readouterr().err
    assert "prefect exited with code 3" in told and "no server" in told
