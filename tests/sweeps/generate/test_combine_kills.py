"""Tests of `tutti generate --from-solutions` on a scripted endpoint: solutions of earlier runs are
combined, and runs that are killed and resumed, in chunks, or undisturbed give the same bytes."""

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint_double import endpoint
from tests.sweeps.generate.test_kills import FILES, ROWS, Scripted, finish, start
from tutti.storage import home_at, query

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
RIGHT = re.compile(r"<solution-(\d+)-\w+>\nright\n")


class Chooser(Scripted):
    """Selector that names the place of the solution with the text `right`."""

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the message for a request."""
        super().reply(body)
        found = RIGHT.search(body["messages"][-1]["content"])
        return {"content": f"Because.\nVerdict: {found[1]}" if found else "I do not know."}


@pytest.fixture
def chooser(tmp_path: Path) -> Iterator[tuple[Scripted, str]]:
    """Yield the endpoint and its URL, with rows and solutions in the folder."""
    rows = [{"problem": f"What is {n} + 1?", "expected_answer": n + 1} for n in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_solutions(tmp_path)
    script = Chooser()
    with endpoint({"id": "m", "max_model_len": 4096}, reply=script.reply) as url:
        yield script, url


def write_solutions(folder: Path) -> None:
    """Write four seeds as this program does: one correct, and identical ones for every fifth
    row."""
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    (folder / "in").mkdir()
    for seed in range(4):
        said = [
            "right" if n % 5 == 0 or seed == n % 4 else f"wrong {seed}" for n in range(len(rows))
        ]
        lines = [
            json.dumps({**row, "generation": text, "num_generated_tokens": 3})
            for row, text in zip(rows, said, strict=True)
        ]
        (folder / "in" / f"output-rs{seed}.jsonl").write_text("".join(f"{e}\n" for e in lines))


def test_killed_in_chunks_and_at_once_gives_the_same_bytes(
    tmp_path: Path, chooser: tuple[Scripted, str]
) -> None:
    script, url = chooser
    flags = ("--from-solutions", "in", "--combine", "select", "--window", "4")
    finish(tmp_path, "quiet", url, *flags, "--out", "quiet-out")
    lines = [
        json.loads(line)
        for name in FILES
        for line in (tmp_path / "quiet-out" / name).read_text().splitlines()
    ]
    assert len(lines) == ROWS * len(FILES)
    assert {line["generation"] for line in lines} == {"right"}, "the right one, wherever shown"
    assert all(line["solution_list"][line["selected_solution"]] == "right" for line in lines)
    calls = "select count(*) n from calls semi join attempts using (attempt_id)"
    asked = query(calls, home_at(tmp_path / "quiet"))
    assert asked == [{"n": ROWS * len(FILES) * 4 // 5}], "alike solutions are not asked about"

    before, script.delay_s = script.asked, 0.1
    process = start(tmp_path, "killed", url, *flags, "--out", "killed-out")
    until = time.monotonic() + 60
    while script.asked < before + 9 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not (tmp_path / "killed-out" / FILES[0]).exists(), "it was killed in its first half"
    script.delay_s = 0.0
    finish(tmp_path, "killed", url, *flags, "--out", "killed-out")
    for chunk in (1, 0):
        part = ("--chunks", "2", "--chunk", str(chunk), "--out", "out")
        finish(tmp_path, f"store-{chunk}", url, *flags, *part)
    for name in FILES:
        quiet = (tmp_path / "quiet-out" / name).read_bytes()
        assert quiet == (tmp_path / "killed-out" / name).read_bytes()
        assert quiet == (tmp_path / "out" / name).read_bytes()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--combine", "select"], "--combine: of stored solutions; add --from-solutions"),
        (["--from-solutions", "in", "--combine", "vote"], "'vote' is not one of"),
        (["--from-solutions", "nowhere"], "has 0 files output-rs*.jsonl; two or more are combined"),
        (["--from-solutions", "in", "--out", "in"], "in is the folder of the solutions"),
        (["--from-solutions", "in", "--python", "once"], "--python: solutions are combined"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(
    tmp_path: Path, chooser: tuple[Scripted, str], flags: list[str], said: str
) -> None:
    script, url = chooser
    text = finish(tmp_path, "home", url, *flags)
    assert said in text and not script.asked, text
