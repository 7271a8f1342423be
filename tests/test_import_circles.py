"""Tests that the check for import cycles detects them, wherever the imports are written."""

from pathlib import Path

import pytest

from tests.import_circles import circles

LAZY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
FACE = LAZY + "from tutti.tasks.b import B as B\n"


def found(root: Path, **sources: str) -> list[list[str]]:
    """Return the cycles of a package `tasks` with these modules."""
    (root / "tasks").mkdir()
    for name, text in {"__init__": "", **sources}.items():
        (root / "tasks" / f"{name}.py").write_text(text)
    return circles(root, ("tasks",))


@pytest.mark.parametrize(
    "back",
    [
        "from tutti.tasks.a import A\n",
        "from tutti.tasks import a\n",
        "import tutti.tasks.a\n",
        LAZY + "from tutti.tasks.a import A\n",
        "def f() -> None:\n    from tutti.tasks.a import A\n",
    ],
)
def test_two_modules_that_import_each_other_are_a_circle(tmp_path: Path, back: str) -> None:
    """The import is at the top, under TYPE_CHECKING or inside a function."""
    circle = ["tutti.tasks.a", "tutti.tasks.b"]
    assert found(tmp_path, a="from tutti.tasks.b import B\n", b=back) == [circle]


def test_a_circle_through_a_face_and_a_third_module_is_found(tmp_path: Path) -> None:
    """An import of a name from a face depends on that name's module."""
    sources = {"__init__": FACE, "a": "from tutti.tasks import B\n", "c": "import tutti.tasks.a\n"}
    circle = ["tutti.tasks.a", "tutti.tasks.b", "tutti.tasks.c"]
    assert found(tmp_path, **sources, b="from tutti.tasks.c import C\n") == [circle]


def test_a_face_is_no_part_of_a_circle(tmp_path: Path) -> None:
    """The face's import block loads nothing, so modules below it may import their package."""
    assert found(tmp_path, __init__=FACE, b="import tutti.tasks\n") == []
