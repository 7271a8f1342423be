"""Fixtures of the scorers' tests: public data if available, a sandbox, a scripted judge."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tutti.tasks.platform.project import PROJECT
from tutti.tasks.sandbox import Sandbox, SandboxLimits, SandboxUnavailable
from tutti.tasks.sandbox.walls import strongest_level
from tutti.tasks.scoring import JudgeSettings


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public data (TUTTI_TEST_DATA)."""
    folder = Path(os.environ.get("TUTTI_TEST_DATA", PROJECT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no public data at {folder}")
    return folder


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    try:
        return Sandbox(strongest_level(), SandboxLimits(seconds=20.0))
    except SandboxUnavailable as unavailable:
        pytest.skip(str(unavailable))


class ToldJudge:
    """Judge with scripted replies that records its prompts."""

    def __init__(self, says: Sequence[str]) -> None:
        self.says = list(says)
        self.prompts: list[str] = []
        self.seeds: list[int] = []
        self.settings: list[JudgeSettings | None] = []

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        self.settings.append(settings)
        self.prompts.append(prompt)
        self.seeds.append(seed)
        return self.says[len(self.prompts) - 1], f"call-{len(self.prompts)}"
