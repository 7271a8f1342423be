"""Tests of the deployments' forms: choices exist, the common fields come first, and every valid
value of a flow is accepted."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.utilities.schema_tools.validation import is_valid, validate

from tutti.cli.setup import deployments
from tutti.cli.setup.deployments import (
    CHOSEN,
    FIRST,
    HIDDEN,
    DeploymentForms,
    choices_here,
    shaped,
)
from tutti.flows.find import find_concurrency
from tutti.flows.nightly import nightly
from tutti.flows.serve import serve_models
from tutti.flows.sweep import eval_sweep
from tutti.tasks.platform.project import MODELS
from tutti.tasks.sweeps.spec import Suite

CHOICES = {
    "benchmarks": ("stdlib", "gsm8k"),
    "models": ("small", "large"),
    "agents": ("pocket",),
}
API = "http://h/api"
REGISTRY = "models: {{{0}: {{provider: openai, context_tokens: 1000}}}}"


def form(flow: Any = eval_sweep) -> dict[str, Any]:
    """Return a flow's form on a machine with `CHOICES`."""
    return shaped(flow.parameters.model_dump(), CHOICES)


def suite_fields() -> dict[str, Any]:
    """Return the fields of a suite in the form of `eval-sweep`."""
    fields: dict[str, Any] = form()["definitions"]["Suite"]["properties"]
    return fields


def test_the_common_fields_are_first_with_help() -> None:
    """The form sorts by position; every field has one, so that none comes before the common
    fields."""
    fields = suite_fields()
    ordered = sorted(fields, key=lambda name: int(fields[name]["position"]))
    assert ordered[:6] == [*FIRST, "name"]
    assert list(FIRST) == ["benchmark", "model", "concurrency", "policies", "limit"]
    assert len({field["position"] for field in fields.values()}) == len(fields)
    assert ordered[-2:] == ["benchmarks", "models"]
    assert all(fields[name]["description"] == text for name, text in FIRST.items())
    assert {*Suite.model_fields} - {*fields} == {*HIDDEN}
    titles = [field["title"] for field in form()["properties"].values()]
    assert titles == ["Suite", "Model registry"]


def test_what_exists_is_chosen() -> None:
    fields = suite_fields()
    for name, expected in (("benchmark", CHOICES["benchmarks"]), ("model", CHOICES["models"])):
        first, other = fields[name]["anyOf"]
        assert (first["type"], first["enum"]) == ("string", list(expected))
        assert "type" not in other, "the form would go back to the choice at each key"
    assert fields["models"]["anyOf"][0]["items"]["enum"] == ["small", "large"]
    assert "thunderagent" in fields["policies"]["anyOf"][0]["items"]["enum"]
    served = form(serve_models)["definitions"]["ServeParameters"]["properties"]["models"]
    assert served["anyOf"][0]["items"]["enum"] == ["small", "large"]
    assert served["default"] == ["pocket"]


def test_every_chosen_field_is_in_a_form() -> None:
    flows = (eval_sweep, serve_models)
    definitions = {
        (group, name)
        for flow in flows
        for group, content in form(flow)["definitions"].items()
        for name in content["properties"]
    }
    assert {*CHOSEN} <= definitions


@pytest.mark.parametrize(
    "suite",
    [
        {},
        {"benchmark": "gsm8k", "model": "small", "limit": 5, "policies": ["cap", "adaptive"]},
        {"benchmark": "/data/my.jsonl", "model": "elsewhere", "data": {"scorer": "numeric"}},
        {"benchmark": "gsm8k:4", "policies": ["passthrough", {"name": "cap", "limit": 4}]},
        {"benchmarks": ["gsm8k", "my.jsonl"], "roles": {"judge": "another", "user": None}},
        {"schedule": "0 2 * * *", "limit": None},
        Suite().model_dump(mode="json"),
    ],
)
def test_the_server_takes_what_the_flow_takes(suite: dict[str, Any]) -> None:
    """Prefect validates parameters with the form's schema before a run exists."""
    for flow in (eval_sweep, find_concurrency):
        assert validate({"suite": suite}, form(flow), raise_on_error=True) == []


@pytest.mark.parametrize(
    "suite", [{"benchmark": 5}, {"model": None}, {"policies": "cap"}, {"limit": 0}, {"limit": "a"}]
)
def test_the_server_refuses_what_is_no_suite(suite: dict[str, Any]) -> None:
    assert not is_valid({"suite": suite}, form())


def test_optional_fields_are_inputs_not_two_buttons() -> None:
    """The server still accepts null for each field, and a date stays a date."""
    fields = suite_fields()
    assert fields["limit"]["type"] == "integer" and fields["limit"]["minimum"] == 1
    scorer = form()["definitions"]["DataSelection"]["properties"]["scorer"]
    assert scorer["type"] == "string" and None in scorer["enum"]
    night = form(nightly)["properties"]["night"]
    assert (night["type"], night["format"]) == ("string", "date")
    assert is_valid({"night": None}, form(nightly)) and not is_valid({"night": 5}, form(nightly))


def test_this_machines_choices() -> None:
    found = choices_here(MODELS)
    assert {"stdlib", "gsm8k"} <= set(found["benchmarks"])
    assert "pocket" in found["models"] and "toolorchestra" in found["agents"]


class Server:
    """Fake of Prefect's API for one deployment that refuses the first `refused` calls and records
    the submitted schemas."""

    def __init__(self, refused: int = 0) -> None:
        self.refused, self.given = refused, list[Any]()

    def __call__(self, url: str, body: Any = None, method: str | None = None) -> Any:
        if url == f"{API}/deployments/filter":
            schema = eval_sweep.parameters.model_dump()
            return [{"id": "one", "parameter_openapi_schema": schema}]
        assert (url, method) == (f"{API}/deployments/one", "PATCH")
        self.given.append(body["parameter_openapi_schema"])
        return None if len(self.given) <= self.refused else ""

    @property
    def models(self) -> list[str]:
        """Return the choices of the latest form."""
        choice = self.given[-1]["definitions"]["Suite"]["properties"]["model"]["anyOf"][0]
        return list(choice["enum"])


def test_forms_follow_the_registry(tmp_path: Path) -> None:
    """A model that is added while `make ui` runs becomes a choice; a broken file is reported."""
    registry, server = tmp_path / "models.yaml", Server()
    registry.write_text(REGISTRY.format("first"))
    followed = DeploymentForms(API, server, ("eval-sweep",), registry)
    assert followed.follow() is None and followed.follow() is None
    assert len(server.given) == 1 and server.models == ["first"]
    write_later(registry, REGISTRY.format("second"))
    assert followed.follow() is None and server.models == ["second"]
    write_later(registry, "models: 5")
    assert "the forms do not know the models" in str(followed.follow())
    assert followed.follow() is None, "said once"
    assert len(server.given) == 2


def write_later(path: Path, text: str) -> None:
    """Write a file so that its modification time differs."""
    changed = path.stat().st_mtime + 10
    path.write_text(text)
    os.utime(path, (changed, changed))


def test_a_server_that_refuses_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "time", SimpleNamespace(sleep=lambda _: None))
    registry = tmp_path / "models.yaml"
    registry.write_text(REGISTRY.format("first"))
    late = DeploymentForms(API, Server(refused=2), ("eval-sweep",), registry)
    assert late.follow() is None
    never = DeploymentForms(API, Server(refused=99), ("eval-sweep",), registry)
    assert never.follow() == "the server rejected the choices of the forms"
