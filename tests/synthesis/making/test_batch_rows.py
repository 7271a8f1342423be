"""Tests that calls in a provider's batch are recorded as the gateway's are: role, tokens, cost and
messages, and once for any number of reads of the batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import NewCatalog
from tests.synthesis.teacher.conftest import QUICK
from tests.synthesis.teacher.lending import SCRIPT, SIZES
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti import storage
from tutti.errors import UsageError
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.serving.registry import Model
from tutti.tasks.synthesis import TeacherDomainSource, TeacherPool, TeacherSetRequest
from tutti.tasks.synthesis.making.by_teacher import BatchRecorder
from tutti.tasks.synthesis.teacher import (
    BatchCall,
    TeacherEndpoint,
    TeacherPrices,
    provider_address,
)
from tutti.tasks.synthesis.teacher.client import ProviderAddress
from tutti.tasks.synthesis.teacher.reading import TeacherAnswer
from tutti.tasks.task_sets import make_set

REQUEST = TeacherSetRequest(
    topic="the desk of a small library", teacher="big", batch=True, evolutions=0, **SIZES
)
PRICES = TeacherPrices(prompt=2.0, completion=10.0)
CALLS = """
select call_id, role, model, endpoint, status, attempt_id, prompt_tokens, completion_tokens,
    cost_usd, latency_s, prompt_spans from calls order by call_id
"""
MESSAGES = "select position, role, call_id from messages where attempt_id = $id order by position"


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


async def test_a_sets_batches_are_on_record_and_priced(catalog: storage.Catalog) -> None:
    """There are two endpoints: single calls are sent to one, batches to the provider's own
    address."""
    async with (
        serving(ScriptedEndpoint(SCRIPT)) as gateway,
        serving(ScriptedEndpoint(SCRIPT, polls_before_end=0)) as provider,
    ):
        provider.given = gateway.given  # one teacher behind both
        where = TeacherEndpoint(
            gateway.url,
            "m",
            "teacher-1",
            call_s=5.0,
            retry=QUICK,
            batch=ProviderAddress(provider.url, "key"),
        )
        pool = TeacherPool([where], [PRICES], concurrency=REQUEST.concurrency)
        made = await make_set(TeacherDomainSource(REQUEST, pool, catalog), catalog)
        batched = [name for name, _, _ in provider.asked]
    assert catalog.artifact(made) is not None and not gateway.batches
    assert batched and all(name.startswith("batch:") for name in batched)
    rows = storage.query(CALLS, catalog.home)
    assert len(rows) == len(batched) == len({row["call_id"] for row in rows})
    assert {(r["role"], r["model"], r["endpoint"], r["status"]) for r in rows} == {
        ("teacher", "big", "batch", "ok")
    }
    assert [row["cost_usd"] for row in rows] == pytest.approx([PRICES.usd(100, 20)] * len(rows))
    said = storage.query(MESSAGES, catalog.home, {"id": "teacher-1-batch"})
    assert [row["position"] for row in said] == list(range(2 * len(rows)))
    assert {row["call_id"] for row in said if row["role"] == "assistant"} == {
        row["call_id"] for row in rows
    }


def call(number: int, began: float | None = 100.0, ended: float | None = 160.0) -> BatchCall:
    """Return a row of a batch."""
    body = {"model": "m", "seed": 0, "messages": [{"role": "user", "content": f"q{number}"}]}
    return BatchCall(f"b-{number}", body, TeacherAnswer("{}", "stop"), (began, ended))


def test_what_is_on_record_is_not_written_again(catalog: storage.Catalog) -> None:
    """The process was killed after the rows and before the responses."""
    recorder = BatchRecorder(catalog, "big", "p", None)
    recorder.record([call(1), call(2)])
    recorder.record([call(1), call(2), call(3, None, None)])
    rows = storage.query(CALLS, catalog.home)
    assert [row["call_id"] for row in rows] == ["b-1", "b-2", "b-3"]
    assert [row["latency_s"] for row in rows[:2]] == [60.0, 60.0] and rows[2]["latency_s"] < 1
    assert {row["cost_usd"] for row in rows} == {None}
    said = storage.query(MESSAGES, catalog.home, {"id": "p"})
    assert [row["position"] for row in said] == list(range(6))


def test_where_batches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry's address and key are used, and no text of it shows the key."""
    known = {"provider": "openai", "endpoint": "http://127.0.0.1:1", "context_tokens": 4096}
    keyed = Model.model_validate(known | {"api_key_env": "A_TEACHERS_KEY"})
    with pytest.raises(UsageError, match="A_TEACHERS_KEY is not set"):
        provider_address(keyed)
    monkeypatch.setenv("A_TEACHERS_KEY", "s3cret")
    found = provider_address(keyed)
    assert found == ProviderAddress("http://127.0.0.1:1/v1", "s3cret")
    assert "s3cret" not in str(found)
    own = Model.model_validate({"provider": "openai", "context_tokens": 4096, "served_name": "g"})
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert provider_address(own).base_url == "https://api.openai.com/v1"
    other = Model.model_validate(known | {"key_header": "api-key"})
    with pytest.raises(UsageError, match="bearer"):
        provider_address(other)


@pytest.mark.slow
async def test_by_the_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Single calls by the gateway and separate batches are all recorded, with one role."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    models = tmp_path / "models.yaml"
    async with serving(ScriptedEndpoint(SCRIPT, polls_before_end=0)) as endpoint:
        entry = {"provider": "openai", "endpoint": endpoint.url, "context_tokens": 32_768}
        models.write_text(yaml.safe_dump({"models": {"big": entry | {"served_name": "m"}}}))
        done = await synthesize_tasks.fn(REQUEST, models=models)
        calls = [name.startswith("batch:") for name, _, _ in endpoint.asked]
    assert any(row["status"] == "accepted" for row in done["counts"])
    rows = storage.query("select role, model, endpoint = 'batch' as batch from calls")
    assert {(row["role"], row["model"]) for row in rows} == {("teacher", "big")}
    assert sorted(row["batch"] for row in rows) == sorted(calls) and any(calls)
