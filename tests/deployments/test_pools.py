"""Tests of the job template of the pool `gpu`: the environment of a run's process, and refused
values."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.utilities.templating import apply_values
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

from tests.platform.gpus.conftest import MakeGpus, listed  # noqa: F401
from tutti import storage
from tutti.cli.setup import ui
from tutti.tasks.platform.gpus import NoSuchGpu, require_job_gpus
from tutti.tasks.platform.progress.runs import open_run

TEMPLATE: dict[str, Any] = json.loads(ui.TEMPLATES["gpu"].read_text())


def environment_of(**variables: Any) -> dict[str, str | None]:
    """Return the environment that Prefect builds from the template for a run with these job
    variables."""
    properties = TEMPLATE["variables"]["properties"]
    given = {name: each["default"] for name, each in properties.items() if "default" in each}
    made = apply_values(TEMPLATE["job_configuration"], given | variables)
    return dict(ProcessJobConfiguration.model_validate(made).env)


def test_it_has_all_that_prefects_own_template_has() -> None:
    """The environment is the exception: its variables are separate fields here."""
    ours = ProcessWorker.get_default_base_job_template()
    assert TEMPLATE["job_configuration"].keys() == ours["job_configuration"].keys()
    missing = ours["variables"]["properties"].keys() - TEMPLATE["variables"]["properties"].keys()
    assert missing == {"env"}
    assert all(each["description"] for each in TEMPLATE["variables"]["properties"].values())


def test_what_a_run_gets() -> None:
    """One GPU is the default, and variables that are left out come from the worker."""
    assert environment_of() == {"TUTTI_JOB_GPUS": " 1"}
    given = environment_of(gpus=4, gpu_list="/etc/gpus.yaml", visible="0,1", share="1")
    assert given == {
        "TUTTI_JOB_GPUS": " 4",
        "TUTTI_GPUS": "/etc/gpus.yaml",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "TUTTI_SHARE_GPUS": "1",
    }


def test_a_run_for_more_gpus_than_its_machine_has_is_refused(
    tmp_path: Path,
    listed: MakeGpus,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run is refused at its start with a record that has the number of GPUs; a run for that
    number starts."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    file = str(listed(2))
    for name, value in (environment_of(gpus=4, gpu_list=file)).items():
        monkeypatch.setenv(name, value or "")
    said = r"for machines with 4 GPUs \(job variable `gpus`.*this machine has 2, by .*: 0 \(GPU-00"
    with pytest.raises(NoSuchGpu, match=said), open_run("eval-sweep", {}):
        pytest.fail("nothing of it may run")
    (row,) = storage.query("select status, error from runs")
    assert row["status"] == "failed" and "lower `gpus`, start a worker" in row["error"]
    for name, value in (environment_of(gpus=2)).items():
        monkeypatch.setenv(name, value or "")
    with open_run("eval-sweep", {}):
        pass


@pytest.mark.parametrize(("asked", "refused"), [("", 0), (" 0", 0), (" 1", 1), ("two", 1)])
def test_a_machine_without_gpus(
    asked: str, refused: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpus.yaml").write_text(yaml.safe_dump({"gpus": []}))
    monkeypatch.setenv("TUTTI_GPUS", str(tmp_path / "gpus.yaml"))
    monkeypatch.setenv("TUTTI_JOB_GPUS", asked)
    home = storage.Home(tmp_path)
    if not refused:
        return require_job_gpus(home)
    none = f"this machine has none .*lists no GPU of host {socket.gethostname()}"
    with pytest.raises(NoSuchGpu, match=none if asked == " 1" else "'two' is not a number of GPUs"):
        require_job_gpus(home)
