"""The sandbox's bench: ``python -m bench.sandbox [--repeats 5] [--starts 40] [--small]``.

In: nothing; the hostile programs are those of tests/agents/hostile. Out: a table and one line of
JSON (bench/report.py). How many of them the strongest level here contains, judged from outside; how
many solutions that cheat (tests/scoring/cheats) are scored as wrong; how long a program waits
for its first statement, one at a time; a session's start and its cells. Beside them the same
interpreter started without any walls. ``--small`` is for tests of the bench itself.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from bench.report import Report, Target, seconds_of
from tests.sandbox.hostile import GROUPS
from tests.sandbox.hostile.judge import judge_at
from tests.scoring.cheats.judge import LIMITS as CHEAT_LIMITS
from tests.scoring.cheats.judge import passing
from tests.scoring.cheats.programs import CHEATS
from tests.scoring.cheats.targets import TARGETS
from tutti.tasks.sandbox import Sandbox, SandboxLimits, SandboxSession
from tutti.tasks.sandbox.walls import strongest_level

LIMITS = SandboxLimits(seconds=30.0)  # generous, because the machine may be busy
START_TARGET_MS = 60.0


def measure_containment(report: Report, level: str, groups: Sequence[str]) -> None:
    """Run the hostile programs and count those that were contained."""
    verdicts = [verdict for name in groups for verdict in judge_at(level, GROUPS[name])]
    report.figure("hostile", [len(verdicts)])
    kept = [verdict for verdict in verdicts if not verdict.breaches]
    report.figure("contained", [len(kept)], Target(len(verdicts), least=True))
    for verdict in verdicts:
        for breach in verdict.breaches:
            report.note(f"{verdict.case.name}: {breach}")


def measure_cheats(report: Report, level: str, targets: Sequence[str]) -> None:
    """Score solutions that try to be scored as right without being right."""
    programs = [(kind, name) for kind in CHEATS for name in targets]
    bought = asyncio.run(passing(Sandbox(level, CHEAT_LIMITS), programs))
    report.figure("cheats", [len(programs)])
    report.figure(
        "cheats_scored_wrong", [len(programs) - len(bought)], Target(len(programs), least=True)
    )
    for kind, name in bought:
        report.note(f"scored as right: {kind} on {name}")


async def measure_starts(level: str, count: int) -> tuple[list[float], list[float]]:
    """Of `count` empty programs: ms to the first statement, and ms of the whole call."""
    sandbox = Sandbox(level, LIMITS)
    await sandbox.run("pass")
    results = [await sandbox.run("pass") for _ in range(count)]
    assert all(result.status == "ok" for result in results), f"an empty program failed at {level}"
    return [one.start_s * 1e3 for one in results], [one.seconds * 1e3 for one in results]


async def measure_rate(level: str, count: int) -> float:
    """Empty programs a second, as many at once as there are cores."""
    sandbox, room = Sandbox(level, LIMITS), asyncio.Semaphore(os.cpu_count() or 1)

    async def one() -> None:
        async with room:
            await sandbox.run("pass")

    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(one() for _ in range(count)))
    return count / (loop.time() - began)


async def measure_session(level: str, count: int) -> tuple[float, float]:
    """A session's start and the median of `count` small cells, both in ms."""
    async with SandboxSession(level, LIMITS) as session:
        opened = await session.run("x = 0")
        cells = [(await session.run("x += 1\nx")).seconds for _ in range(count)]
    return opened.start_s * 1e3, statistics.median(cells) * 1e3


def bare_start_ms() -> float:
    """The same interpreter with nothing around it, from call to end."""
    interpreter = os.path.join(sys.base_prefix, "bin", "python3")
    return seconds_of(lambda: subprocess.run([interpreter, "-I", "-S", "-c", ""], check=True)) * 1e3


def measure_times(report: Report, level: str, count: int) -> None:
    """Starts, whole calls, rate, sessions: one median per repeat."""
    pooled: list[float] = []
    found: dict[str, list[float]] = {
        name: [] for name in ("start_p50_ms", "call_p50_ms", "calls_per_s", "session", "cell")
    }
    bare = []
    for _ in range(report.repeats):
        starts, calls = asyncio.run(measure_starts(level, count))
        pooled += starts
        found["start_p50_ms"].append(statistics.median(starts))
        found["call_p50_ms"].append(statistics.median(calls))
        found["calls_per_s"].append(asyncio.run(measure_rate(level, count)))
        session, cell = asyncio.run(measure_session(level, count))
        found["session"].append(session)
        found["cell"].append(cell)
        bare.append(statistics.median(bare_start_ms() for _ in range(count)))
    report.figure("start_p50_ms", found["start_p50_ms"], Target(START_TARGET_MS))
    tenths = statistics.quantiles(pooled, n=10)
    report.figure("start_p90_ms", [tenths[-1]])
    report.figure("call_p50_ms", found["call_p50_ms"])
    report.figure("calls_per_s", found["calls_per_s"])
    report.figure("session_start_ms", found["session"])
    report.figure("session_cell_p50_ms", found["cell"])
    report.peer("no_walls", "call_p50_ms", bare)
    report.note(
        f"start: from the call to the first statement, {len(pooled)} starts one at a time,"
        f" p10 {tenths[0]:.1f} to p90 {tenths[-1]:.1f} ms; call: to its result; no_walls: the same"
        " interpreter as a plain process."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    summary = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="bench.sandbox", description=summary)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--starts", type=int, default=40, help="in each repeat")
    parser.add_argument("--small", action="store_true", help="seconds, to test the bench itself")
    given = parser.parse_args(arguments)
    level = strongest_level()
    report = Report("sandbox", given.repeats)
    report.note(f"level {level!r}")
    measure_times(report, level, 4 if given.small else given.starts)
    measure_containment(report, level, ["others"] if given.small else list(GROUPS))
    measure_cheats(report, level, ["number"] if given.small else list(TARGETS))
    report.show()


if __name__ == "__main__":
    main()
