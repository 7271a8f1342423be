"""Tests of a store with remote tables: a local S3 server, and fsspec's memory."""

import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ports import free_ports
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.base.home import files_of
from tutti.storage.maintenance import compact, verify

READY_S = 120


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Yield the URL of a local S3-compatible server."""
    port = free_ports()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {name: value for name, value in os.environ.items() if "PROXY" not in name.upper()}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as server:
        try:
            _wait_for(server, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _wait_for(server: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        assert server.poll() is None, "the S3 server ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"no S3 server after {READY_S} s")


@pytest.fixture(params=["s3", "memory"])
def remote(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> storage.Home:
    """Return a store at a URL, with its catalog in SQLite by URL."""
    monkeypatch.setenv("TUTTI_CATALOG_URL", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = f"b{uuid.uuid4().hex}"
    if request.param == "s3":
        import s3fs

        for key, value in {
            "AWS_ENDPOINT_URL": request.getfixturevalue("s3_server"),
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(key, value)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir(name)
        monkeypatch.setenv("TUTTI_HOME", f"s3://{name}/tutti")
    else:
        monkeypatch.setenv("TUTTI_HOME", f"memory://{name}/tutti")
    return storage.current_home()


def rows(nth: int) -> dict[str, list[dict[str, Any]]]:
    """Return an attempt of a sweep with two messages."""
    key = {"attempt_id": f"attempt:{nth}", "sweep_id": "sweep:1"}
    return {"attempts": [key], "messages": [key | {"position": p} for p in range(2)]}


def test_a_remote_store_is_written_read_compacted_and_verified(remote: storage.Home) -> None:
    """As in a local store, parts are there whole or not at all, and readers see only entered
    ones."""
    with storage.open_catalog(remote) as catalog:
        for nth in range(4):
            storage.commit(catalog, rows(nth))
        files = files_of(remote)
        files.put("tables/attempts/part-nobody.parquet", memoryview(b"half"))
        found = storage.query("select count(*) as n from attempts join messages using (attempt_id)")
        assert found == [{"n": 8}]
        assert compact(catalog, grace_s=0).merged == 2
        assert compact(catalog, grace_s=0).files_removed == 8
        assert storage.query("select count(*) as n from messages where sweep_id = 'sweep:1'") == [
            {"n": 8}
        ]
        (orphan,) = verify(catalog, repair=True, min_age_s=-5).findings
        assert (orphan.kind, orphan.repaired) == ("orphan", "moved to quarantine/")
        assert files.get("quarantine/tables/attempts/part-nobody.parquet") == b"half"
        assert verify(catalog, min_age_s=-5).findings == []


def test_an_artifact_made_on_one_machine_is_found_on_another(
    remote: storage.Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The artifacts, an index and a checkpoint, are folders and single files."""
    with storage.open_catalog(remote) as catalog:
        for name in ("index:1", "report:1"):
            folder = remote.artifact_folder(name)
            (folder / "deep").mkdir(parents=True)
            (folder / "deep" / "a.bin").write_bytes(b"a")
            (folder / "b.json").write_text("{}")
            catalog.enter_artifact(name, {}, path=folder)
        catalog.enter_artifact("card:1", {}, path=remote.artifact_folder("index:1") / "b.json")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    with storage.open_catalog() as catalog:
        found = catalog.artifact("index:1")
        assert found is not None and found["path"].is_relative_to(tmp_path / "another")
        files = sorted(path for path in found["path"].rglob("*") if path.is_file())
        assert [path.read_bytes() for path in files] == [b"{}", b"a"]
        card = catalog.artifact("card:1")
        assert card is not None and card["path"].read_text() == "{}"


def test_a_commit_that_fails_leaves_nothing_there(remote: storage.Home) -> None:
    """Uploaded parts that were not entered are removed."""

    def fail(_: sa.Connection) -> None:
        raise RuntimeError("no")

    with storage.open_catalog(remote) as catalog:
        with pytest.raises(RuntimeError):
            storage.commit(catalog, rows(0), fail)
        assert list(files_of(remote).list("tables")) == []


def test_a_part_that_is_gone_or_short_is_refused(remote: storage.Home) -> None:
    """The part is named before a query returns rows."""
    with storage.open_catalog(remote) as catalog:
        storage.commit(catalog, rows(0))
        (part, _) = catalog.rows(sa.select(cat.parts).order_by(cat.parts.c.table_name))
        files = files_of(remote)
        files.put(part["path"], memoryview(files.get(part["path"])[:-4]))
        with pytest.raises(storage.PartDamaged, match=f"{part['part_id']}.*bytes long"):
            storage.connect()
        files.remove(part["path"])
        with pytest.raises(storage.PartDamaged, match=f"{part['part_id']}.*missing"):
            storage.connect()


def test_a_remote_store_needs_a_catalog_that_can_be_locked(
    remote: storage.Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite cannot be in a bucket; the message says what to set."""
    monkeypatch.delenv("TUTTI_CATALOG_URL")
    with pytest.raises(storage.StoreError, match="set TUTTI_CATALOG_URL"):
        storage.open_catalog()


def test_an_unknown_kind_of_url_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error has the URL and what is missing."""
    monkeypatch.setenv("TUTTI_HOME", "nosuch://bucket/tutti")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TUTTI_CATALOG_URL", f"sqlite:///{tmp_path}/catalog.db")
    with pytest.raises(storage.StoreError, match="TUTTI_HOME=nosuch://bucket/tutti: "):
        storage.connect()
