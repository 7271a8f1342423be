"""Tests of the order of stages: an import of a later stage is detected anywhere."""

import re
from pathlib import Path

import pytest

from tests.house import STAGES, offences

STAGED_FOLDERS = Path(__file__).resolve().parents[1] / "tasks"


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("serving/registry.py", "from tutti.tasks.agents import Agent", True),
        ("agents/command.py", "def f():\n    from tutti.tasks.scoring import Score", True),
        ("agents/model.py", "from tutti.tasks import synthesis", True),
        ("serving/registry.py", "from tutti.tasks.unheard_of import name", True),
        ("scoring/votes.py", "from tutti.tasks.agents import read_verdict", False),
        ("scoring/votes.py", "from tutti.tasks.platform.project import DEPLOYMENTS", False),
    ],
)
def test_a_stage_imports_only_from_earlier_stages(
    tmp_path: Path, file: str, line: str, found: bool
) -> None:
    path = tmp_path / "tasks" / file
    path.parent.mkdir(parents=True)
    path.write_text(f'"""A module."""\n\n{line}\n')
    assert ("stage order" in [rule for _, _, rule, _ in offences(tmp_path)]) is found


def test_every_folder_of_tasks_has_a_place_in_the_order() -> None:
    folders = {each.parent.name for each in STAGED_FOLDERS.glob("*/__init__.py")}
    assert folders <= set(STAGES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from tutti.tasks.sandbox import strongest_level", True),
        ("from tutti.tasks.sandbox import walls", True),
        ("import tutti.tasks.sandbox.walls", True),
        ("from tutti.tasks import sandbox", True),
        ("Sandbox('limits')", True),
        ("Sandbox(level='limits')", True),
        ("def run(level):\n    return SandboxSession(level)", True),
        ("level = level_for_models()\nlevel = 'limits'\nSandbox(level)", True),
        ("level, limits = 'limits', level_for_models()\nSandbox(level)", True),
        ("Sandbox(level_for_models(), LIMITS)", False),
        ("suite, level = plan.suite, sandbox_level(plan)\nSandboxSessions(level)", False),
    ],
)
def test_no_module_chooses_a_sandbox_level_itself(tmp_path: Path, text: str, found: bool) -> None:
    path = tmp_path / "tasks" / "synthesis" / "toolkit.py"
    path.parent.mkdir(parents=True)
    path.write_text(f'"""A module."""\n\n{text}\n')
    assert ("sandbox level" in [rule for _, _, rule, _ in offences(tmp_path)]) is found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from http.server import ThreadingHTTPServer", True),
        ("from aiohttp import web", True),
        ("import uvicorn", True),
        ("from starlette.applications import Starlette", True),
        ("from http import HTTPStatus", False),
        ("import aiohttp", False),
    ],
)
def test_every_service_has_the_same_http_server(tmp_path: Path, line: str, found: bool) -> None:
    path = tmp_path / "cli" / "pages.py"
    path.parent.mkdir(parents=True)
    path.write_text(f'"""A module."""\n\n{line}\n')
    assert ("http server" in [rule for _, _, rule, _ in offences(tmp_path)]) is found


@pytest.mark.parametrize(("files", "found"), [(25, False), (26, True)])
def test_a_folder_with_more_than_twenty_five_files_is_an_offence(
    tmp_path: Path, files: int, found: bool
) -> None:
    folder = tmp_path / "tasks" / "scoring"
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"scorer_{number}.py").write_text('"""A module."""\n')
    assert ("full folder" in [rule for _, _, rule, _ in offences(tmp_path)]) is found


def test_each_rule_of_the_threat_model_names_tests_that_are_there() -> None:
    """Rules are items of lists and actors; assets are not rules, and unprotected items have no
    test."""
    root = STAGED_FOLDERS.parent
    _, _, rules = (root / "docs/security.md").read_text().partition("## Permissions")
    blocks = re.split(r"\n(?=[-|#])|\n\n", rules)
    items = [each for each in blocks if each.startswith(("- ", "| a", "| another"))]
    kept = [each for each in items if not each.startswith(("- Not protected", "| actor"))]
    assert len(kept) > 30
    for item in kept:
        named = re.findall(r"`(tests/[^`]+)`", item)
        assert named and all((root / each).exists() for each in named), item
