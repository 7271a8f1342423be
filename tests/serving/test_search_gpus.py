"""Tests that the search service uses GPUs only if configured, and holds them as engines do."""

from pathlib import Path

import pytest

from tests.retrieval.vectors import passages
from tutti.storage import Catalog
from tutti.tasks.platform.gpus import NoSuchGpu, list_gpus, read_inventory
from tutti.tasks.retrieval.index import build_index
from tutti.tasks.serving import GatewayFailed, ServingError
from tutti.tasks.serving.processes.process import Child
from tutti.tasks.serving.served import retrieval_service, services

GPUS = "TUTTI_SEARCH_GPUS"


@pytest.fixture(autouse=True)
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus.yaml").write_text("gpus: [{index: 0, uuid: GPU-a}, {index: 1, uuid: GPU-b}]")
    monkeypatch.setenv("TUTTI_GPUS", str(tmp_path / "gpus.yaml"))
    monkeypatch.setenv("TUTTI_GPU_LOCKS", str(tmp_path / "locks"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv(GPUS, raising=False)


def states(catalog: Catalog) -> list[str]:
    return [each.state for each in list_gpus(catalog, read_inventory(catalog.home))]


def test_its_card_is_held_and_the_only_one_that_it_sees(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str | None, list[str], int]] = []
    monkeypatch.setattr(services, "answers", lambda url: True)
    monkeypatch.setattr(Child, "wait_ready", lambda child, probe, timeout_s: None)
    for asked in (None, "1"):
        if asked is not None:
            monkeypatch.setenv(GPUS, asked)
        with retrieval_service(tmp_path, catalog):
            held = [each.work for each in list_gpus(catalog, read_inventory(catalog.home))]
            seen.append((asked, states(catalog), held.count("search")))
    assert seen == [(None, ["free", "free"], 0), ("1", ["held", "free"], 1)]
    assert states(catalog) == ["free", "free"]


def test_a_faiss_without_gpus_is_said_and_gives_the_card_back(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real service runs with the installed FAISS; without the variable it serves."""
    pytest.importorskip("faiss")
    folder = build_index(passages(40), catalog)
    monkeypatch.setenv(GPUS, "1")
    with pytest.raises(GatewayFailed) as failure:
        with retrieval_service(folder, catalog):
            pass
    assert "TUTTI_SEARCH_GPUS=1, and" in str(failure.value)
    assert "Traceback" not in str(failure.value)
    assert states(catalog) == ["free", "free"]
    monkeypatch.delenv(GPUS)
    with retrieval_service(folder, catalog) as url:
        assert url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(("asked", "said"), [("3", "3 GPUs asked for"), ("all", "'all' is not a")])
def test_what_there_is_not_starts_nothing(
    asked: str, said: str, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GPUS, asked)
    with pytest.raises((NoSuchGpu, ServingError), match=said):
        with retrieval_service(tmp_path, catalog):
            pass
    assert not catalog.home.logs.exists()
