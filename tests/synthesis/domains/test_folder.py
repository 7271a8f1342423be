"""A domain's files are copied with some of its tasks, byte for byte."""

from pathlib import Path

import pytest

from tests.synthesis.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.domains import (
    changed_task,
    copy_domain_folder,
    read_domain_folder,
    write_domain_folder,
)


@pytest.mark.parametrize(("most", "copied"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_a_copy_is_what_would_be_written(tmp_path: Path, most: int, copied: int) -> None:
    """A text may hold what some readers take for the end of a line."""
    known = EXTENDED.world.scenario.model_copy(update={"known": "one\u2028two\x85three"})
    tasks = [changed_task(EXTENDED, scenario=known), LOOKED_UP]
    for name, some in (("whole", tasks), ("written", tasks[:copied])):
        (tmp_path / name).mkdir()
        write_domain_folder(tmp_path / name, EXAMPLE, some)
    assert copy_domain_folder(tmp_path / "whole", tmp_path / "sets" / "copy", most) == copied
    files = {path.name for path in (tmp_path / "written").iterdir()}
    assert files == {path.name for path in (tmp_path / "sets" / "copy").iterdir()}
    for name in files:
        made, wanted = (tmp_path / each / name for each in ("sets/copy", "written"))
        assert made.read_bytes() == wanted.read_bytes()
    assert list(read_domain_folder(tmp_path / "sets" / "copy")[1]) == tasks[:copied]
