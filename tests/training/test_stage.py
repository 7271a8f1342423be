"""Tests that a trainer's log is read as it grows, each report once."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tutti.tasks.training.jobs.stage import ReportLog


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes read equal bytes written: a log of n steps is not read n times."""
    log, read, seen = tmp_path / "log", 0, []
    reports = ReportLog(log)
    assert reports.new() == [], "the trainer has not started"
    plain = Path.open

    def counted(self: Path, *args: Any) -> Any:
        file = plain(self, *args)
        known = file.read

        class Counted:
            """File that counts its reads."""

            def __enter__(self) -> "Counted":
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def seek(self, offset: int) -> None:
                file.seek(offset)

            def read(self) -> bytes:
                nonlocal read
                found: bytes = known()
                read += len(found)
                return found

        return Counted()

    with plain(log, "w") as out, monkeypatch.context() as patched:
        patched.setattr(Path, "open", counted)
        for step in range(200):
            out.write(json.dumps({"step": step}) + "\n")
            out.flush()
            seen += reports.new()
    assert [row["step"] for row in seen] == [*range(200)]
    assert read == log.stat().st_size


def test_an_incomplete_line_waits_for_its_end(tmp_path: Path) -> None:
    """The line may be truncated within a multi-byte character."""
    log = tmp_path / "log"
    reports = ReportLog(log)
    whole = json.dumps({"step": 1, "note": "é"}, ensure_ascii=False).encode() + b"\n"
    for end in range(len(whole)):
        log.write_bytes(whole[:end])
        assert reports.new() == []
    log.write_bytes(whole)
    assert reports.new() == [{"step": 1, "note": "é"}] and reports.new() == []


def test_other_lines_are_no_reports(tmp_path: Path) -> None:
    """Examples are a warning, a traceback, and a report into which another line was written."""
    log = tmp_path / "log"
    log.write_text('Warning: x\n{"step": 1}\n{"step": 2, Warning\n[1]\n{"step": 3}\n')
    assert ReportLog(log).new() == [{"step": 1}, {"step": 3}]
