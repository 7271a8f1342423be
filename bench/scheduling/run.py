"""The scheduling bench: ``python -m bench.scheduling [--setup …] [--shape …] [--load …] …``.

In: nothing; models are random, programs made up, both seeded. Out: a table and one line of JSON
(bench/report.py), and every cell with its steps in OUT/cells.jsonl. A real vLLM serves on this CPU
with a KV space of known size; arms stand before it in turn (direct, our gateway's policies, peers)
and serve the same programs, in blocks whose order is shuffled. Without arguments: half an hour.
"""

import argparse
import asyncio
import datetime as dt
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench.report import Report
from bench.scheduling import simulated
from bench.scheduling.arms import DIRECT, Arm, arm_named, opened
from bench.scheduling.client import STEP_COLUMNS, ArmEndpoint, Outcome, run_programs
from bench.scheduling.engine import SETUPS, Engine, Setup, counted_between, with_pauses
from bench.scheduling.figures import Cells, Predictor, enter_figures
from bench.scheduling.measure import measure
from bench.scheduling.peers import PeerMissing, Peers
from bench.scheduling.plan import (
    SWEEP_BLOCKS,
    CellSpec,
    Group,
    arms_of_block,
    make_plan,
    read_arms,
    spec_of,
)
from bench.scheduling.records import FILE, Record, Records
from bench.scheduling.work import SHAPES, Program, make_programs, start_offsets
from tutti import storage
from tutti.storage import Catalog
from tutti.tasks.serving.errors import ServingError
from tutti.tasks.serving.simulation import SimulationError

START_SPREAD_S = 0.5
"""Sessions begin within this time."""
WARM_PROGRAMS = 4
"""Programs run and discarded before each cell: connections, imports, the first decisions of a
policy."""
WARM_LIMIT_S = 60.0
GUESSED_CELL_S = 25.0
"""Assumed duration of a cell for the first estimate of the remaining time."""


@dataclass
class Bench:
    """One run of the bench."""

    groups: tuple[Group, ...]
    seed: int
    records: Records
    catalog: Catalog
    peers: Peers
    work: Path
    pause_mean_s: float | None = None
    dropped: dict[str, str] = field(default_factory=dict)
    """Arms that are not available, and why."""
    _done: int = 0
    _spent_s: float = 0.0

    def setup(self, name: str) -> Setup:
        """A set-up with this run's options."""
        found = SETUPS[name]
        return found if self.pause_mean_s is None else with_pauses(found, self.pause_mean_s)

    def run(self) -> None:
        """Run every missing cell; an engine is started at most once per set-up."""
        for name in dict.fromkeys(group.setup for group in self.groups):
            groups = [group for group in self.groups if group.setup == name]
            if not any(self._missing(group) for group in groups):
                continue
            with Engine(self.setup(name), self.work, self.catalog) as engine:
                print(f"{name}: vLLM answers at {engine.url}", flush=True)
                for group in groups:
                    self._run_group(group, engine)

    def _run_group(self, group: Group, engine: Engine) -> None:
        for block in range(group.blocks):
            for arm in self._arms(group, block):
                spec = spec_of(group, engine.setup, block, arm, self.seed)
                if spec not in self.records and arm.name not in self.dropped:
                    self._run_cell(spec, arm, engine)

    def _arms(self, group: Group, block: int) -> tuple[Arm, ...]:
        caps = {
            name: [of[b].measures["steps_per_min"] for b in of if b < SWEEP_BLOCKS]
            for name, of in self.cells(group).items()
            if arm_named(name).is_cap
        }
        known = {name: found for name, found in caps.items() if found}
        return arms_of_block(group, self.setup(group.setup), block, self.seed, known)

    def cells(self, group: Group) -> dict[str, dict[int, Record]]:
        """The finished cells of a group by arm and block."""
        return self.records.like(spec_of(group, self.setup(group.setup), 0, DIRECT, self.seed))

    def _missing(self, group: Group) -> int:
        setup = self.setup(group.setup)
        return sum(
            spec_of(group, setup, block, arm, self.seed) not in self.records
            and arm.name not in self.dropped
            for block in range(group.blocks)
            for arm in self._arms(group, block)
        )

    def _run_cell(self, spec: CellSpec, arm: Arm, engine: Engine) -> None:
        began = time.monotonic()
        engine.check()
        try:
            with opened(arm, engine.url, self.catalog, self.peers) as front:
                record = run_cell(spec, front, engine)
        except (PeerMissing, ServingError) as error:
            engine.check()  # if the engine itself failed, the bench cannot continue
            self.dropped[arm.name] = str(error)
            print(f"{arm.name} is left out: {error}", flush=True)
            return
        self.records.add(record)
        self._done += 1
        self._spent_s += time.monotonic() - began
        self._tell(record)

    def _tell(self, record: Record) -> None:
        left = sum(self._missing(group) for group in self.groups)
        each = self._spent_s / self._done if self._done else GUESSED_CELL_S
        found, spec = record.measures, record.spec
        words = f"{found['steps_per_min']:7,.0f} steps/min  hit {found['hit_share']:.2f}"
        words += f"  p95 {found['latency_p95_s']:5.1f} s  took {found['seconds']:5.1f} s"
        flaws = "  CUT" * record.cut
        if found["failed_programs"]:
            flaws += f"  {found['failed_programs']:.0f} programs failed"
        until = dt.timedelta(seconds=round(left * each))
        title = f"{spec.group} block {spec.block} {spec.arm}"
        print(f"{title:<48}{words}{flaws}  {left} cells left, about {until}", flush=True)


def run_cell(spec: CellSpec, front: ArmEndpoint, engine: Engine) -> Record:
    """Warm up the arm, empty the prefix cache, run the programs, and measure."""
    setup, shape = engine.setup, SHAPES[spec.shape]
    warm = make_programs(setup.sizes, shape, WARM_PROGRAMS, f"{spec.work_seed}/warm", spec.arm)
    _run(front, warm, [0.0] * WARM_PROGRAMS, True, setup, WARM_LIMIT_S)
    engine.reset()
    programs = make_programs(setup.sizes, shape, spec.programs, spec.work_seed, spec.arm)
    starts = start_offsets(spec.sessions, START_SPREAD_S, spec.work_seed)
    began_at, load = dt.datetime.now(dt.UTC).isoformat(), os.getloadavg()[0]
    before = engine.counters()
    outcome = _run(front, programs, starts, shape.releases, setup, setup.cell_limit_s)
    counted = counted_between(before, engine.counters())
    return Record(
        spec=spec,
        measures=measure(outcome, counted, spec.programs),
        counted=counted,
        cut=outcome.cut,
        began_at=began_at,
        load_1m=round(load, 2),
        columns=STEP_COLUMNS,
        steps=[step.row() for step in outcome.steps],
        programs=[
            [_rounded(outcome.began_s.get(place)), _rounded(outcome.ended_s.get(place))]
            for place in range(spec.programs)
        ],
        held=[[round(at, 3), held, flying] for at, held, flying in outcome.held],
    )


def _run(
    front: ArmEndpoint,
    programs: Sequence[Program],
    starts: Sequence[float],
    releases: bool,
    setup: Setup,
    limit_s: float,
) -> Outcome:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(
            run_programs(
                front,
                programs,
                starts,
                releases=releases,
                answer_tokens=setup.sizes.answer_tokens,
                limit_s=limit_s,
            )
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when a name is unknown."""
    parser = argparse.ArgumentParser(
        prog="bench.scheduling", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--setup", default="", help=f"of {', '.join(SETUPS)}; several with commas")
    add("--shape", default="", help=f"of {', '.join(SHAPES)}")
    add("--load", default="", help="offered programs over those that fit, e.g. 1,2,3")
    add("--arms", help="direct,cap,cap-K,adaptive,…; NAME:N takes part in N blocks only")
    add("--blocks", type=int, help="of each group; without any choice the plan has its own")
    add("--passes", type=float, help="programs of a cell, over its sessions")
    add("--pause", type=float, help="mean seconds of a tool run, instead of the set-up's")
    add("--seed", type=int, default=1)
    add("--out", type=Path, help="folder for cells.jsonl (default: a new one in TUTTI_HOME)")
    add("--resume", action="store_true", help="use the cells that --out has already")
    given = parser.parse_args(arguments)
    given.setups, given.shapes = _listed(given.setup), _listed(given.shape)
    for name, known in [(n, SETUPS) for n in given.setups] + [(n, SHAPES) for n in given.shapes]:
        if name not in known:
            parser.error(f"unknown name {name!r}; there are {', '.join(known)}")
    try:
        given.loads = [float(load) for load in _listed(given.load)]
        for name, _ in read_arms(given.arms, 1) if given.arms else ():
            if name != "cap":
                arm_named(name)
    except ValueError as error:
        parser.error(str(error))
    if given.resume and given.out is None:
        parser.error("--resume needs --out, the folder to go on with")
    if given.out is not None and (given.out / FILE).is_file() and not given.resume:
        parser.error(f"{given.out} has cells already; pass --resume to go on, or another --out")
    return given


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the missing cells, then print."""
    given = parse(arguments)
    groups = make_plan(
        given.setups, given.shapes, given.loads, given.arms, given.blocks, given.passes
    )
    work = storage.current_home().root.absolute() / "bench"
    out = (given.out or work / f"scheduling-{dt.datetime.now():%Y%m%d-%H%M%S}").absolute()
    report = Report("scheduling", max(group.blocks for group in groups))
    records = Records(out)
    print(f"cells go to {records.path}", flush=True)
    with storage.open_catalog(storage.Home(out / "home")) as catalog:
        peers = Peers(work / "peers")
        bench = Bench(groups, given.seed, records, catalog, peers, work, given.pause)
        bench.run()
    found = [(group, bench.cells(group)) for group in groups]
    enter_figures(report, found, given.seed, _simulator(found))
    for name, reason in bench.dropped.items():
        report.note(f"{name} is absent: {reason}")
    report.show()


def _simulator(found: Sequence[tuple[Group, Cells]]) -> Predictor | None:
    """The simulator, calibrated on the arm `direct` of this run; None if that did not run."""
    records = [
        record for _, cells in found for blocks in cells.values() for record in blocks.values()
    ]
    try:
        return simulated.Predictor(records)
    except SimulationError as error:
        print(f"no simulation: {error}", flush=True)
        return None


if __name__ == "__main__":
    main()
