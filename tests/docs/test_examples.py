"""Tests of the examples in README and docs: every `tutti sql` line runs, and every verb and flag
exists."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tutti.cli.main import app
from tutti.tasks.platform.project import PROJECT

PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
FENCE = re.compile(r"```(?:console|sh|bash)\n(.*?)```", re.S)
OUR_OWN = ("tutti ",)


def commands() -> list[tuple[str, str]]:
    """Return (page, command) for every tutti command in a fenced block, with continuation lines
    joined."""
    found = []
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                text = line.strip().removeprefix("$ ").removeprefix(".venv/bin/")
                if text.startswith(OUR_OWN):
                    found.append((page.name, text))
    return found


@cache
def help_of(*verb: str) -> str:
    """Return the help text of a command, which is cached for all examples."""
    shown = CliRunner().invoke(app, [*verb, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    return shown.output


@pytest.mark.parametrize(("page", "command"), commands())
def test_the_command_exists(page: str, command: str) -> None:
    """The verb and every flag are in the verb's own help."""
    words = shlex.split(command, comments=True)[1:]
    verbs: list[str] = []
    for word in words:
        if word.startswith("-") or not re.fullmatch(r"[a-z]+", word) or len(verbs) == 2:
            break
        verbs.append(word)
    groups = {"sweep", "train"}
    verb = verbs[: 2 if verbs and verbs[0] in groups else 1]
    shown = help_of(*verb)
    for word in words:
        if word.startswith("--"):
            assert word.split("=")[0] in shown, f"{page}: {command}: no flag {word}"


@pytest.mark.parametrize(
    ("page", "command"), [pair for pair in commands() if pair[1].startswith("tutti sql ")]
)
def test_the_sql_runs(
    page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty store, all tables, columns, macros and parameters exist."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    words = shlex.split(command, comments=True)[1:]
    done = CliRunner().invoke(app, words, env={"TUTTI_HOME": str(tmp_path / "home")})
    assert done.exit_code == 0, f"{page}: {command}: {done.output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_images_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.M))
    for page in PAGES:
        for name in re.findall(r"(?:`|\$ )make ([a-z0-9-]+)", page.read_text()):
            assert name in targets, f"{page.name} names make {name}"
