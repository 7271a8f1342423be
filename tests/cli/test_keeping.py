"""`tutti synth task_set:ID`: one gate a command, each with its own flags."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tutti.cli.main import app


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "give one of --band, --agreement and --judge"),
        (["--band", "0:1", "--agreement", "0.6"], "give one of --band, --agreement and --judge"),
        (["--band", "0.5"], "must be LOW:HIGH"),
        (["--judge", "big", "--k", "4"], "k: of --band"),
        (["--agreement", "0.6", "--usd", "1"], "usd: of --judge"),
        (["--agreement", "0.6", "--size", "9"], "size: a stored set's tasks are kept"),
        (["--agreement", "0.6"], "no task set 'task_set:00'"),
        (["--agreement", "1.5"], "least"),
        (["--judge", "nobody"], "nobody"),
    ],
)
def test_what_does_not_fit_is_named(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    found = CliRunner().invoke(app, ["synth", "task_set:00", *flags])
    assert found.exit_code == 2, found.output
    assert words in " ".join(found.output.split())
