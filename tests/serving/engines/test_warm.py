"""Tests of a kept engine: it is located by its id, used by one run at a time, and left to its
keeper."""

import asyncio
import shlex
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tutti.storage import Catalog
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving.engines import Engine, warm
from tutti.tasks.serving.engines.control import is_asleep
from tutti.tasks.serving.engines.warm import IdleSleep, is_used, warm_engines
from tutti.tasks.serving.processes import answers
from tutti.tasks.serving.registry import Model
from tutti.tasks.serving.served import EngineUse

DOUBLE = [sys.executable, "-m", "tests.serving.vllm_double"]


@pytest.fixture(autouse=True)
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(DOUBLE)} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(python))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))


def engine(catalog: Catalog, name: str = "pocket", **settings: Any) -> Engine:
    entry: dict[str, Any] = {"provider": "vllm", "checkpoint": PROJECT / "assets" / "pocket"}
    entry |= {"context_tokens": 512, "engine": {"kv_blocks": 8, "device": "cpu", **settings}}
    return Engine(name, Model.model_validate(entry), catalog)


def post(url: str) -> None:
    urllib.request.urlopen(url, b"", timeout=60).close()


@contextmanager
def kept(catalog: Catalog) -> Iterator[Engine]:
    keeper = engine(catalog)
    keeper.kept = True
    with keeper:
        yield keeper


def test_a_kept_engine_is_used_and_outlives_its_use(catalog: Catalog) -> None:
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
    """The second starts its own, because they would measure each other's load."""
    with kept(catalog) as keeper, engine(catalog) as first, engine(catalog) as second:
        assert first.url == keeper.address.url
        assert second.url != keeper.address.url


def test_another_engine_is_not_it(catalog: Catalog) -> None:
    with kept(catalog) as keeper, engine(catalog, max_sequences=4) as other:
        assert other.url != keeper.address.url


async def test_its_users_are_told_when_it_ends(catalog: Catalog) -> None:
    guest = engine(catalog)
    with kept(catalog):
        await asyncio.to_thread(guest.start)
    with pytest.raises(EngineFailed, match=r"kept, has ended"):
        await guest.watch()
    guest.stop()


def test_one_that_does_not_answer_is_not_used(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept(catalog) as keeper:
        hung = f"{keeper.address.url}/health"
        patched = "tutti.tasks.serving.engines.engine.answers"
        monkeypatch.setattr(patched, lambda url: url != hung and answers(url))
        with engine(catalog) as own:
            assert own.url != keeper.address.url


def test_one_that_is_healthy_and_computes_nothing_is_not_used(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server may respond to /health while its engine hangs: the run prints a message and starts
    its own."""
    monkeypatch.setattr(warm, "CALL_TIMEOUT_S", 0.5)
    with kept(catalog) as keeper:
        post(f"{keeper.address.url}/hang")
        assert answers(f"{keeper.address.url}/health")
        with engine(catalog) as own:
            assert own.url != keeper.address.url
        assert not is_used(catalog, keeper.address.url), "it is left free"
    said = capsys.readouterr().err
    assert "the kept engine is not used" in said and "timed out" in said


def test_one_of_another_name_is_not_used(catalog: Catalog) -> None:
    """Such an engine serves the model under its own entry's name and would refuse the calls."""
    with kept(catalog) as keeper, engine(catalog, name="other") as own:
        assert own.url != keeper.address.url


def test_one_that_sleeps_is_woken_for_its_user(catalog: Catalog) -> None:
    with kept(catalog) as keeper:
        url = keeper.address.url
        post(f"{url}/sleep?level=1")
        assert asyncio.run(is_asleep(url))
        with engine(catalog) as used:
            assert used.url == url
            assert not asyncio.run(is_asleep(url))


def test_idle_engines_sleep_and_wake_with_use(catalog: Catalog) -> None:
    """An engine sleeps after a minute without use by the clock; a use restarts the minute."""
    now = [0.0]
    with kept(catalog) as keeper:
        url = keeper.address.url
        sleep = IdleSleep([url], lambda: now[0])
        for at, used, asleep in (
            (59, False, False),
            (59, True, False),
            (61, False, False),
            (118, False, False),
            (119, False, True),
            (500, False, True),
            (501, True, False),
            (560, False, False),
            (561, False, True),
        ):
            now[0] = float(at)
            sleep.follow(used)
            assert asyncio.run(is_asleep(url)) == asleep, at
        post(f"{url}/wake_up")  # as a run does that uses it
        sleep.follow(True)
        assert not asyncio.run(is_asleep(url))


class IdleGateway:
    """Gateway through which no calls ran."""

    def health(self) -> dict[str, Any]:
        return {"recorded": 0, "unrecorded": 0, "held": 0, "running": 0}


@pytest.mark.parametrize("sleeps", [True, False])
def test_a_keeper_lets_those_sleep_whose_entries_say_so(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, sleeps: bool
) -> None:
    monkeypatch.setattr(warm, "SLEEP_AFTER_S", 0.0)
    with kept(catalog) as keeper:
        keeper.settings = keeper.settings.model_copy(update={"sleep": sleeps})
        use = EngineUse(catalog, IdleGateway(), [keeper])  # type: ignore[arg-type]
        assert use.is_busy(), "the first question cannot know"
        assert not use.is_busy()
        assert asyncio.run(is_asleep(keeper.address.url)) == sleeps
        with engine(catalog) as used:
            assert used.url == keeper.address.url and use.is_busy()
            assert not asyncio.run(is_asleep(used.url))
