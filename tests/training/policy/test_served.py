"""Tests of the weights that engines get during a training: each step's, and the opponent's at each
round."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan import Adapter
from tutti.tasks.training.policy import PolicyJob, adapter_of, as_sampled, loop
from tutti.tasks.training.policy.loop import ServedPolicy
from tutti.tasks.training.policy.trainer import StepDone

SUITE = {"policies": ["passthrough"], "concurrency": [4], "sampling": {"temperature": 1.0}}


class Engines:
    """Two engines and a gateway that record the weights loaded into each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[str, str]] = []
        self.versions: list[str] = []

        async def swap(url: str, folder: Path) -> None:
            assert folder.is_dir()
            self.given.append((url, (folder / "name").read_text()))

        async def load(url: str, name: str, folder: Path) -> None:
            await swap(f"{url} {name}", folder)

        monkeypatch.setattr(loop, "swap_weights", swap)
        monkeypatch.setattr(loop, "load_adapter", load)

    @property
    def services(self) -> Any:
        own = SimpleNamespace(name="pocket", address=SimpleNamespace(url="own", engine_id="e1"))
        rival = SimpleNamespace(name="rival", address=SimpleNamespace(url="rival"))
        gateway = SimpleNamespace(set_weights=lambda engine, name: self.versions.append(name))
        return SimpleNamespace(engine=own, others=(rival,), gateway=gateway)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    return Engines(monkeypatch)


def step(work: Path, number: int) -> StepDone:
    folder = work / f"weights-{number:06d}"
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"w{number}")
    return StepDone(number, {}, folder)


def job(**fields: Any) -> PolicyJob:
    return PolicyJob.model_validate({"base": "pocket", "suite": SUITE, "name": "j"} | fields)


async def test_the_opponent_gets_the_weights_of_its_round_and_keeps_them_after_a_kill(
    engines: Engines, tmp_path: Path
) -> None:
    """The trainer deletes old weights, so these are copied."""
    asked = job(self_play={"opponent": "rival", "every": 2})
    policy = ServedPolicy(asked, engines.services, tmp_path)
    for number in (1, 2, 3):
        await policy.take(step(tmp_path, number))
    assert engines.given == [("own", "w1"), ("own", "w2"), ("rival", "w2"), ("own", "w3")]
    assert engines.versions == ["j/step-1", "j/step-2", "j/step-3"]
    engines.given.clear()
    again = ServedPolicy(asked, engines.services, tmp_path)
    await again.begin(StepDone(3, {}, tmp_path / "weights-000003"), None)
    assert engines.given == [("own", "w3"), ("rival", "w2")]


async def test_a_step_is_served_once(engines: Engines, tmp_path: Path) -> None:
    """This also holds if it is reported again, or after a later one, because loading weights stops
    the engine."""
    policy = ServedPolicy(job(), engines.services, tmp_path)
    first, second = step(tmp_path, 1), step(tmp_path, 2)
    for each in (first, first, second, first, second):
        await policy.take(each)
    assert engines.given == [("own", "w1"), ("own", "w2")]
    assert engines.versions == ["j/step-1", "j/step-2"] and policy.step == 2


async def test_a_step_without_weights_changes_no_engine(engines: Engines, tmp_path: Path) -> None:
    policy = ServedPolicy(job(), engines.services, tmp_path)
    await policy.take(StepDone(1, {}, None))
    assert engines.given == [] and policy.step == 1


async def test_an_adapter_is_served_from_the_first_call(engines: Engines, tmp_path: Path) -> None:
    """The adapter has one name: first the adapter that changes nothing, then those of the steps."""
    asked = job(lora={"rank": 4})
    policy = ServedPolicy(asked, engines.services, tmp_path)
    await policy.begin(None, step(tmp_path, 0).weights)
    await policy.take(step(tmp_path, 1))
    assert engines.given == [("own pocket-j", "w0"), ("own pocket-j", "w1")]
    adapter = adapter_of(asked, "checkpoint:base")
    assert adapter == Adapter("pocket-j", "checkpoint:base", Path())
    assert adapter_of(job(), "checkpoint:base") is None


def test_an_engine_takes_adapters_only_where_one_is_trained() -> None:
    """Adapter support takes most of a CPU's speed."""
    engine = {"kv_blocks": 64, "lora": True}
    entry = {"provider": "vllm", "checkpoint": "w", "context_tokens": 128, "engine": engine}
    model = Model.model_validate(entry)
    plain, adapted = as_sampled(model, job()), as_sampled(model, job(lora={"rank": 4}))
    assert plain.engine is not None and adapted.engine is not None
    assert (plain.engine.lora, adapted.engine.lora, plain.record_tokens) == (False, True, True)


async def test_the_engine_sleeps_while_a_step_is_trained_where_that_is_asked(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    @asynccontextmanager
    async def asleep(url: str) -> AsyncIterator[None]:
        told.append(f"{url} sleeps")
        yield
        told.append(f"{url} wakes")

    monkeypatch.setattr(loop, "asleep", asleep)
    for sleeps in (False, True):
        asked = job(rollouts={"staleness": 0, "engine_sleeps": sleeps})
        async with ServedPolicy(asked, engines.services, tmp_path).at_rest():
            told.append("step")
    assert told == ["step", "own sleeps", "step", "own wakes"]
    with pytest.raises(ValueError, match="give 0"):
        job(rollouts={"engine_sleeps": True})


def test_rounds_need_whole_weights_and_another_entry() -> None:
    with pytest.raises(ValueError, match="`lora` makes none"):
        job(lora={"rank": 4}, self_play={"opponent": "rival"})
    with pytest.raises(ValueError, match="an entry of its own"):
        job(self_play={"opponent": "pocket"})
