"""Tests that two processes that train together give the results of one, and resume from each
other's states."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from tests.training.trainer import pair  # noqa: E402
from tests.training.trainer.pocket import settings  # noqa: E402
from tests.training.trainer.test_serve import Trainer, losses  # noqa: E402
from tutti.tasks.training.trainer.fit import fit  # noqa: E402
from tutti.tasks.training.trainer.serve import serve  # noqa: E402
from tutti.tasks.training.trainer.world import ALONE  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]
ROOT = Path(__file__).resolve().parents[3]
BOUND_S = 300.0


def start(log: Path, module: str, *arguments: object) -> "subprocess.Popen[bytes]":
    """Start a module in two processes."""
    launcher = str(ROOT / "tutti" / "tasks" / "training" / "launch_many.py")
    command = [sys.executable, "-P", launcher, "2", module, *map(str, arguments)]
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )


def run(log: Path, module: str, *arguments: object) -> int:
    """Run a module in two processes to its end, within a time limit."""
    child = start(log, module, *arguments)
    try:
        return child.wait(BOUND_S)
    finally:
        child.kill()
        child.wait()


def reports(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"')]


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def same(found: Any, known: Any) -> None:
    """Check that each step's figures by name agree within 1e-5, and the gradient's norm within
    torch's own accuracy: its sum over a million squares on a CPU is 4e-5 off, and in halves
    2e-5."""
    assert len(found) == len(known)
    for one, other in zip(found, known, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            rel = 2e-4 if name == "gradient_norm" else 1e-5
            assert one[name] == pytest.approx(value, rel=rel, abs=1e-5), name


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Run all cases of `pair` in this process and in two."""
    alone, two = (tmp_path_factory.mktemp(name) for name in ("alone", "two"))
    (alone / "seen-0.json").write_text(json.dumps(pair.run_all(alone, ALONE, None)))
    log = two / "log"
    assert run(log, "tests.training.trainer.pair", two, alone) == 0, log.read_text()
    return alone, two


def seen(folder: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"seen-{rank}.json").read_text())
    return found


@pytest.mark.parametrize("case", ["sft", *pair.CASES])
def test_two_take_the_steps_of_one(folders: tuple[Path, Path], case: str) -> None:
    """Loss, gradient, entropy, mismatch and held-out loss agree, and then the weights."""
    alone, two = folders
    same(seen(two)[case], seen(alone)[case])
    assert seen(two, rank=1)[case] == seen(two)[case], "bit for bit, or they would decide otherwise"
    ours, known = (torch.load(each / case / "trained.pt") for each in (two, alone))
    assert ours.keys() == known.keys()
    for name in known:
        assert torch.allclose(ours[name], known[name], rtol=0, atol=1e-5), name


def test_the_work_and_the_weights_are_parted(folders: tuple[Path, Path]) -> None:
    """With an odd number of micro-batches, one process repeats one that does not count."""
    alone, two = folders
    known = seen(alone)
    counts = len(known["micro-batches"])
    assert counts % 2 == 1 and counts > 2, "else the case is not tried"
    parts = [seen(two, rank) for rank in (0, 1)]
    assert [len(part["micro-batches"]) for part in parts] == [(counts + 1) // 2] * 2
    assert [sum(part["micro-batches"]) for part in parts] == [(counts + 1) // 2, counts // 2]
    assert sum(part["here"] for part in parts) == known["here"]
    assert max(part["here"] for part in parts) < 0.51 * known["here"]


def test_the_checkpoint_is_whole(folders: tuple[Path, Path]) -> None:
    """Plain transformers loads it; it has the files and names of a single process's checkpoint."""
    alone, two = folders
    for case, file in (("sft", "model.safetensors"), ("adapter", "adapter_model.safetensors")):
        ours, known = (load_file(each / case / file) for each in (two, alone))
        assert {n: v.shape for n, v in ours.items()} == {n: v.shape for n, v in known.items()}
        names = [sorted(path.name for path in (each / case).iterdir()) for each in (two, alone)]
        assert names[0] == names[1]
    loaded = dict(AutoModelForCausalLM.from_pretrained(two / "sft").named_parameters())
    trained = torch.load(two / "sft" / "trained.pt")
    assert loaded.keys() == trained.keys()
    for name, value in trained.items():
        assert torch.equal(loaded[name], value.to(torch.bfloat16)), name


def test_either_goes_on_from_the_others_state(folders: tuple[Path, Path], tmp_path: Path) -> None:
    alone, two = folders
    left = seen(alone)["sft"][pair.SAVED_AFTER :]
    for row in left:
        del row["held_out"]
    same(seen(two)["resumed"], left)
    same(pair.go_on(pair.stepper_of(tmp_path, ALONE), two / "state.pt"), left)


def test_killed_it_goes_on_with_two_or_with_one(tmp_path: Path) -> None:
    """One of two is killed (-9), and the other ends, too. Losses equal those of an undisturbed
    run."""
    optimizer = {"learning_rate": 1e-4}
    batch = {"sequences": 4, "tokens": 128}
    asked = settings(tmp_path, steps=8, save_every_s=1e-6, optimizer=optimizer, batch=batch)
    file, state, log = tmp_path / "settings.json", tmp_path / "state.pt", tmp_path / "log"
    file.write_text(asked.model_dump_json())
    module = "tutti.tasks.training.trainer"
    given = ["--settings", file, "--out", tmp_path / "out", "--state", state]
    known = fit(asked, tmp_path / "alone", tmp_path / "alone.pt", lambda row: None)["log"]
    child, deadline = start(log, module, *given), time.monotonic() + BOUND_S
    while '"step": 4,' not in log.read_text():
        assert child.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
    first, second = children(child.pid)
    os.kill(second, signal.SIGKILL)
    assert child.wait(60) == 137 and not Path(f"/proc/{first}").exists()
    saved = tmp_path / "saved.pt"
    saved.write_bytes(state.read_bytes())
    assert run(log, module, *given) == 0, log.read_text()
    two = json.loads((tmp_path / "out" / "training.json").read_text())["log"]
    one = fit(asked, tmp_path / "one", saved, lambda row: None)["log"]
    for found in (two, one):
        assert [row["step"] for row in found] == [*range(1, 9)]
        same([{"loss": row["loss"]} for row in found], [{"loss": row["loss"]} for row in known])
    told = [row["step"] for row in reports(log) if "loss" in row]
    assert told == [*range(1, 9)], "each once: the second process says nothing"


def test_a_loss_that_is_no_number_ends_both(tmp_path: Path) -> None:
    """The message is printed, and there is no checkpoint."""
    optimizer = {"learning_rate": 1e30, "warmup_share": 0.0}
    file, log = tmp_path / "settings.json", tmp_path / "log"
    file.write_text(settings(tmp_path, optimizer=optimizer).model_dump_json())
    given = ["--settings", file, "--out", tmp_path / "out"]
    assert run(log, "tutti.tasks.training.trainer", *given) == 1
    assert log.read_text().count("Diverged: step ") == 2, "each of the two says it"
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_a_policy_takes_batches_with_two(tmp_path: Path) -> None:
    """One process looks for batches, both take the step, and one writes the weights, also for an
    empty batch."""
    trainers = Trainer(tmp_path / "one"), Trainer(tmp_path / "two")
    for trainer in trainers:
        for step, count in ((1, 6), (2, 0), (3, 3)):
            trainer.give(step, count)
        (trainer.work / "end").touch()
    one, two = trainers
    given = ["--settings", two.work / "settings.json", "--work", two.work, "--out", two.out]
    assert run(two.log, "tutti.tasks.training.trainer", *given) == 0, two.log.read_text()
    with one.log.open("w") as out:
        alone = settings(tmp_path, **asked_of(one))
        serve(alone, one.work, one.out, lambda row: print(json.dumps(row), file=out), ALONE)
    assert losses(two) == pytest.approx(losses(one), abs=1e-5) and len(losses(two)) == 3
    written = [row["weights"] for row in two.rows() if "step" in row]
    assert written == ["weights-000001", "weights-000001", "weights-000003"]
    assert (two.work / written[-1] / "model.safetensors").is_file()
    assert (two.out / "model.safetensors").is_file()


def asked_of(trainer: Trainer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((trainer.work / "settings.json").read_text())
    return found
