"""How often two programs give the same verdict, and where they differ."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_S = 580.0
OFFICIAL = Path(__file__).parent / "official"
SHOWN = 60


@dataclass
class Agreement:
    """Two programs over the same answers."""

    n: Counter[str] = field(default_factory=Counter)
    """Answers by kind of perturbation."""
    same: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    """Answers that the official program calls right."""
    differing: list[str] = field(default_factory=list)

    def add(self, kind: str, ours: Any, official: Any, what: str) -> None:
        """One answer's two verdicts."""
        self.n[kind] += 1
        self.same[kind] += ours == official
        self.right[kind] += official is True
        if ours != official:
            self.differing.append(f"{kind}: {what}: ours {ours}, official {official}")

    def join(self, other: "Agreement") -> None:
        """The answers of another comparison, too."""
        self.n += other.n
        self.same += other.same
        self.right += other.right
        self.differing += other.differing

    def table(self) -> str:
        """Agreement by kind, and some differences."""
        lines = [f"{'answers':<12}{'n':>7}{'same':>7}{'right':>7}"]
        for kind in [*self.n, "all"]:
            n, same, right = (
                sum(each.values()) if kind == "all" else each[kind]
                for each in (self.n, self.same, self.right)
            )
            lines.append(f"{kind:<12}{n:>7}{same:>7}{right:>7}")
        return "\n".join([*lines, *self.differing[:SHOWN]])


def official(
    python: str, program: str, arguments: Sequence[str], asked: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What a program of `official/` answers, a line each. Raises RuntimeError."""
    lines = "".join(f"{json.dumps(one)}\n" for one in asked)
    done = subprocess.run(
        [python, str(OFFICIAL / program), *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
