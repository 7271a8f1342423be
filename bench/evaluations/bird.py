"""BIRD: EX, soft-F1 and R-VES beside the publisher's programs, on made-up databases and queries.

BIRD's own databases cannot be had offline. In: the Python that has ``func_timeout`` and ``numpy``,
and the folder of the programs (mini-dev's ``evaluation``, or that of 2023's ``evaluation.py``).
Out: the agreement over pairs of queries, and for R-VES over given times.
"""

import asyncio
import math
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.scoring import Score, ScoringResources, Submission
from tutti.tasks.scoring.children.sql_rows import reward_of, trimmed_mean
from tutti.tasks.scoring.rules.sql import BirdMeasure

DATABASES = 6
GOLD_QUERIES = 24
"""For each database; each is paired with one predicted query of every kind in `KINDS`."""
TIMEOUT_S = 5.0
SLOW_TIMEOUT_S = 0.3
SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 4000000) "
ROUNDS = 100
TIMES = 400
DIGITS = 12  # sums of the same fractions in another order
COLUMNS = ("a", "b", "c", "d")
WORDS = ("oak", "Oak", "elm", "", "1", "1.0", "NULL", "Zürich")
KINDS = (
    *("gold", "columns", "order", "duplicates", "distinct", "limit", "changed", "other", "null"),
    *("cast", "text", "less", "more", "empty", "error", "two", "write", "pragma"),
)


def queries(python: str, programs: Path) -> Agreement:
    """EX of every pair and, where the folder has the program, soft-F1 and R-VES' reward."""
    found, mini_dev = Agreement(), (programs / "evaluation_ex.py").is_file()
    with tempfile.TemporaryDirectory() as folder:
        asked = [pair for nth in range(DATABASES) for pair in _pairs(Path(folder), nth)]
        if not mini_dev:  # 2023's program leaves connections open: a write locks the next one out
            asked = [pair for pair in asked if pair["kind"] != "write"]
        # ours first: the publisher's programs may write into the files
        ours = [(_measure("bird_ex", one), _measure("bird_soft_f1", one)) for one in asked]
        said = official(python, "bird.py", [str(programs)], asked)
    for one, (ex, f1), told in zip(asked, ours, said, strict=True):
        what = f"{one['given']!r} for {one['gold']!r}"
        found.add(f"EX {one['kind']}", ex.correct, told["ex"], what)
        if "f1" in told:
            mine, its = round(float(f1.value), DIGITS), round(told["f1"], DIGITS)
            found.add(f"F1 {one['kind']}", mine, its, what)
    if mini_dev:
        _compare_times(found, python, programs)
    return found


def _compare_times(found: Agreement, python: str, programs: Path) -> None:
    asked = [{"times": times} for times in made_times()]
    for one, told in zip(asked, official(python, "bird.py", [str(programs)], asked), strict=True):
        ratio = trimmed_mean([gold / given for gold, given in one["times"]])
        mine = round(100 * math.sqrt(reward_of(ratio)), DIGITS)
        found.add("R-VES", mine, round(told["r_ves"], DIGITS), f"ratio {ratio}")


def made_times() -> Iterator[list[tuple[float, float]]]:
    """Times of both queries in `ROUNDS` rounds: ratios around every border, with some outliers."""
    rng = random.Random(1)
    for _ in range(TIMES):
        ratio = rng.choice((0.1, 0.25, 0.5, 1.0, 2.0, 4.0)) * rng.uniform(0.97, 1.03)
        times = []
        for _ in range(ROUNDS):
            given = rng.uniform(1e-4, 2e-4)
            late = rng.choice((20.0, 1.0)) if rng.random() < 0.03 else 1.0
            times.append((given * ratio * late * rng.gauss(1, 0.05), given))
        yield times


def made_database(file: Path, seed: int) -> None:
    """Two tables with equal rows, NULLs, empty texts, and numbers that are equal across types."""
    rng = random.Random(seed)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE t (a INTEGER, b TEXT, c REAL, d INTEGER)")
        connection.execute("CREATE TABLE u (a INTEGER, e TEXT)")
        for _ in range(30):
            row = (rng.randrange(6), rng.choice(WORDS), rng.choice((0.5, 1.0, 2.0)), None)
            full = rng.random() < 0.7
            connection.execute(
                "INSERT INTO t VALUES (?, ?, ?, ?)", (*row[:3], rng.randrange(4) if full else None)
            )
        for number in range(8):
            connection.execute("INSERT INTO u VALUES (?, ?)", (number % 5, rng.choice(WORDS)))


def _pairs(folder: Path, nth: int) -> Iterator[dict[str, Any]]:
    database, rng = folder / f"{nth}.sqlite", random.Random(f"queries {nth}")
    made_database(database, nth)
    base = {"database": str(database), "timeout_s": TIMEOUT_S}
    for _ in range(GOLD_QUERIES):
        parts = _parts(rng)
        for kind in KINDS:
            pair = {"kind": kind, "gold": _query(*parts), "given": predicted(parts, kind, rng)}
            yield base | pair
    for given in (f"{SLOW}SELECT count(*) FROM n", f"{SLOW}SELECT max(i) FROM n, u"):
        slow = {"kind": "slow", "gold": "SELECT count(*) FROM t", "given": given}
        yield base | slow | {"timeout_s": SLOW_TIMEOUT_S}


Parts = tuple[list[str], str, str]
"""Columns, condition and tail of a query of table t."""


def _parts(rng: random.Random) -> Parts:
    columns = rng.sample(COLUMNS, rng.randint(1, 3))
    where = f"a {rng.choice(('<', '=', '>='))} {rng.randrange(6)}"
    where += rng.choice(("", " AND d IS NULL", " OR b = 'oak'", " AND c <> 0.5"))
    tail = rng.choice(("", "", f" ORDER BY {columns[0]}", f" GROUP BY {', '.join(columns)}"))
    return columns, where, tail


def _query(columns: list[str], where: str, tail: str = "") -> str:
    return f"SELECT {', '.join(columns)} FROM t WHERE {where}{tail}"


def predicted(parts: Parts, kind: str, rng: random.Random) -> str:
    """A predicted query: the gold one with one change of `kind`."""
    columns, where, tail = parts
    plain, gold = _query(columns, where), _query(*parts)
    made = {
        "gold": gold,
        "columns": _query([*columns[1:], columns[0]], where),
        "order": f"{plain} ORDER BY {columns[-1]} DESC, rowid DESC",
        "duplicates": f"{plain} UNION ALL {plain}",
        "distinct": f"SELECT DISTINCT {', '.join(columns)} FROM t WHERE {where}",
        "limit": f"{plain} LIMIT {rng.randint(0, 6)}",
        "changed": _query(columns, f"a <> {rng.randrange(6)}", tail),
        "other": _query(*_parts(rng)),
        "null": _query([f"coalesce({name}, 0)" for name in columns], where),
        "cast": _query([f"CAST({name} AS REAL)" for name in columns], where),
        "text": _query([f"CAST({name} AS TEXT)" for name in columns], where),
        "less": _query(columns[:-1] or ["1"], where),
        "more": _query([*columns, rng.choice(COLUMNS)], where),
        "empty": "",
        "error": rng.choice((f"{gold} FROM", gold.replace(" t ", " tt "), _query(["zz"], where))),
        "two": f"{gold}; SELECT 1",
        "write": rng.choice(("DELETE FROM u WHERE a = 99", "UPDATE u SET e = e")),
        "pragma": "PRAGMA table_info(t)",
    }
    return made[kind]


def _measure(name: str, asked: dict[str, Any]) -> Score:
    target = {"sql": asked["gold"], "database": asked["database"]}
    scorer = BirdMeasure(name, asked["timeout_s"])
    text = f"```sql\n{asked['given']}\n```"
    return asyncio.run(scorer.score(target, Submission(text, text), ScoringResources()))
