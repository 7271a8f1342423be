"""A kept engine is found by its id, used by one run at a time, and left to its keeper."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tutti.storage import Catalog
from tutti.tasks.project import PROJECT
from tutti.tasks.serving import Engine, EngineFailed, Model, answers
from tutti.tasks.serving.engines import is_used, warm_engines

DOUBLE = [sys.executable, "-m", "tests.serving.vllm_double"]


@pytest.fixture(autouse=True)
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A models environment whose vLLM has no model."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(DOUBLE)} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(python))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))


def engine(catalog: Catalog, **settings: Any) -> Engine:
    """The pocket's, with such settings."""
    entry: dict[str, Any] = {"provider": "vllm", "checkpoint": PROJECT / "assets" / "pocket"}
    entry |= {"context_tokens": 512, "engine": {"kv_blocks": 8, "device": "cpu", **settings}}
    return Engine("pocket", Model.model_validate(entry), catalog)


@contextmanager
def kept(catalog: Catalog) -> Iterator[Engine]:
    """A kept engine that runs."""
    keeper = engine(catalog)
    keeper.kept = True
    with keeper:
        yield keeper


def test_a_kept_engine_is_used_and_outlives_its_use(catalog: Catalog) -> None:
    """No second process is started, and the next run finds it again."""
    with kept(catalog) as keeper:
        for _ in range(2):
            guest = engine(catalog)
            assert guest.start() == keeper.address
            assert is_used(catalog, keeper.address.url)
            guest.stop()
            assert not is_used(catalog, keeper.address.url)
        assert [each.url for each in warm_engines(catalog)] == [keeper.address.url]
        assert len(list(catalog.home.logs.glob("vllm-*.log"))) == 1
    assert warm_engines(catalog) == []


def test_two_runs_do_not_share_one(catalog: Catalog) -> None:
    """The second starts its own: they would measure each other's load."""
    with kept(catalog) as keeper, engine(catalog) as first, engine(catalog) as second:
        assert first.url == keeper.address.url
        assert second.url != keeper.address.url


def test_another_engine_is_not_it(catalog: Catalog) -> None:
    """A changed setting is another id."""
    with kept(catalog) as keeper, engine(catalog, max_sequences=4) as other:
        assert other.url != keeper.address.url


async def test_its_users_are_told_when_it_ends(catalog: Catalog) -> None:
    """As of an engine of their own that dies."""
    guest = engine(catalog)
    with kept(catalog):
        guest.start()
    with pytest.raises(EngineFailed, match=r"kept, has ended"):
        await guest.watch()
    guest.stop()


def test_one_that_does_not_answer_is_not_used(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs; the run starts its own."""
    with kept(catalog) as keeper:
        hung = f"{keeper.address.url}/health"
        patched = "tutti.tasks.serving.engine.answers"
        monkeypatch.setattr(patched, lambda url: url != hung and answers(url))
        with engine(catalog) as own:
            assert own.url != keeper.address.url
