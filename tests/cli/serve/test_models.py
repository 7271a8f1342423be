"""Tests of `tutti models`: the registry's entries, available keys and responding endpoints; keys
are never printed."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any, ClassVar

import pytest
import yaml
from typer.testing import CliRunner, Result

from tutti.cli.main import app

KEY = "sk-0123456789"


class Provider(BaseHTTPRequestHandler):
    """Model list for requests with the right key; `asked` has the paths and headers."""

    asked: ClassVar[list[tuple[str, dict[str, str]]]] = []
    status, body = 200, b""

    def do_GET(self) -> None:
        """Send the response that the test specifies."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked.append((self.path, headers))
        refused = KEY not in str(headers.values()) and "key" in self.path
        self.send_response(401 if refused else self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the log."""


@pytest.fixture
def provider() -> Iterator[str]:
    """Run a provider of the models a and b and yield its URL."""
    Provider.asked.clear()
    Provider.status = 200
    Provider.body = json.dumps({"data": [{"id": "a"}, {"id": "b"}]}).encode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(folder: Path, *arguments: str, models: dict[str, Any], **environment: str) -> Result:
    """Run the verb with a registry of `models`."""
    path = folder / "deployments" / "models.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"models": models}))
    unset = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MY_KEY"), "")
    environment = unset | {"TUTTI_HOME": str(folder / "home")} | environment
    return CliRunner().invoke(app, ["models", "--models", str(path), *arguments], env=environment)


def outside(url: str, **more: Any) -> dict[str, Any]:
    return {"provider": "openai", "endpoint": url, "context_tokens": 4096} | more


def found(done: Result) -> dict[str, Any]:
    return {each["name"]: (each["ok"], each["found"]) for each in json.loads(done.stdout)}


def test_entries_are_listed_with_what_decides_a_call(tmp_path: Path) -> None:
    """The list has provider, endpoint, dialect, context, tools, thinking, and whether the key is
    set, but not the key."""
    gpt = {"provider": "openai", "context_tokens": 400_000, "thinking": False}
    local = outside("http://gpu:8000/v1", dialect="hermes", tools=False, served_name="Qwen3-8B")
    plain = outside("http://h/v1", api_key_env="MY_KEY", tools=False)
    models = {"gpt": gpt, "local": local, "plain": plain}
    done = run(tmp_path, models=models, MY_KEY=KEY)
    assert done.exit_code == 0, done.output
    text = done.stdout
    assert "gpt  openai  https://api.openai.com/v1" in text
    assert "400,000 tokens, tools, thinking off, OPENAI_API_KEY missing" in text
    assert "serves Qwen3-8B, dialect hermes, 4,096 tokens, tools as text, no key" in text
    assert "no tools, MY_KEY set" in text
    assert KEY not in text
    shown = json.loads(run(tmp_path, "--json", models=models, MY_KEY=KEY).stdout)
    assert [each["key"] for each in shown] == ["missing", "none", "set"]
    assert {each["ok"] for each in shown} == {None} and KEY not in str(shown)


def test_our_own_registry_is_listed() -> None:
    done = CliRunner().invoke(app, ["models", "--check", "--json"])
    assert done.exit_code == 0, done.output
    ok, said = found(done)["pocket"]
    assert ok and said.startswith("the weights are there; vllm on cpu; tools by hermes")


def test_each_endpoint_is_asked_as_the_gateway_would(tmp_path: Path, provider: str) -> None:
    """The request has the same path and key; an endpoint that does not serve the model, or does not
    respond, is reported."""
    models = {
        "a": outside(f"{provider}/key/v1", api_key_env="MY_KEY"),
        "b": outside(f"{provider}/key/v1"),
        "c": outside(provider, api_path="/paas/v4"),
        "d": outside(provider, provider="vllm"),
        "e": outside("http://127.0.0.1:9"),
        "f": outside(provider, api_key_env="OPENAI_API_KEY"),
        "g": outside(provider, provider="anthropic", api_key_env="MY_KEY", served_name="a"),
    }
    done = run(tmp_path, "--check", "--json", models=models, MY_KEY=KEY)
    assert done.exit_code == 1
    verdicts = found(done)
    assert verdicts["a"] == (True, "serves a")
    assert verdicts["b"] == (False, "rejects the key (HTTP 401)")
    assert verdicts["c"] == (True, "answers; c is not in its list (a, b)")
    assert verdicts["d"] == (False, "answers; d is not in its list (a, b)")
    assert verdicts["e"][0] is False and "does not answer" in verdicts["e"][1]
    assert verdicts["f"] == (False, "f: OPENAI_API_KEY is not set in the environment")
    assert verdicts["g"] == (True, "serves a")
    paths = sorted(path for path, _ in Provider.asked)
    assert paths == ["/key/v1/models"] * 2 + ["/paas/v4/models"] + ["/v1/models"] * 2
    (claude,) = [headers for _, headers in Provider.asked if "anthropic-version" in headers]
    assert claude["x-api-key"] == KEY and "authorization" not in claude
    assert KEY not in done.stdout


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (404, b"", (True, "answers; it lists no models")),
        (500, b"", (False, "its list of models (GET /v1/models) answers with HTTP 500")),
        (200, b"<html>", (False, "its list of models is invalid")),
        (200, b'{"data": [3]}', (False, "its list of models is invalid")),
    ],
)
def test_odd_answers(
    status: int, body: bytes, verdict: tuple[bool, str], tmp_path: Path, provider: str
) -> None:
    Provider.status, Provider.body = status, body
    done = run(tmp_path, "--check", "--json", models={"a": outside(provider)})
    ok, text = found(done)["a"]
    assert (ok, done.exit_code) == (verdict[0], 0 if ok else 1)
    assert text.startswith(verdict[1])


def test_weights_that_are_not_there_are_said(tmp_path: Path) -> None:
    engine = {"kv_blocks": 8}
    served = {"provider": "vllm", "checkpoint": "nowhere", "context_tokens": 64, "engine": engine}
    done = run(tmp_path, "--check", models={"m": served})
    assert done.exit_code == 1
    assert "FAILED" in done.stdout and "no such folder" in done.stdout


def test_a_wrong_registry_is_one_message(tmp_path: Path) -> None:
    done = run(tmp_path, models={"m": outside("http://h", provider="opneai")})
    assert done.exit_code == 2
    assert "no provider 'opneai'; known: anthropic, azure" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"{y}: &{y} [{', '.join([f'*{x}'] * 10)}]\n" for x, y in pairwise("abcdefghi")),
        "models: &a [*a]",
        "models: " + "[" * 1000,
    ],
    ids=["laughs", "recursion", "depth"],
)
def test_a_registry_without_end_is_one_message(tmp_path: Path, text: str) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(text)
    began = process_time()
    done = CliRunner().invoke(app, ["models", "--models", str(file)])
    assert done.exit_code == 2 and done.stderr.startswith(f"tutti: {file}: line ")
    assert process_time() - began < 5, "most of it is importing"
