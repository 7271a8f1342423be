"""The retrieval bench: ``python -m bench.retrieval [--documents 1000000] [--repeats 5]``.

In: nothing; vectors are made up here, clustered and seeded (bench/retrieval/data.py). Out: a table
and one line of JSON (bench/report.py). An index with inverted lists over a million vectors: recall
against the exact ten, queries a second in one process, start, and the service under load; exact
search beside FAISS's Flat on the same vectors; the rate of a build that embeds its texts itself.
About five minutes on two cores; ``--documents 50000`` for tests of the bench itself, whose figures
mean nothing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np

from bench.gateway.cost import cpu_s
from bench.gateway.process import Server, free_port
from bench.report import Report, Target, seconds_of
from bench.retrieval.client import QUERIES, Job, run_job
from bench.retrieval.data import DIMENSIONS, Numbered, TableEmbedder, texts, write_vectors
from tutti.storage import Catalog, Home
from tutti.tasks.retrieval.ann import BLAS_FROM_QUERIES, limit_threads, list_count
from tutti.tasks.retrieval.build import build_index
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.exact import Rows, search_exact
from tutti.tasks.retrieval.index import Index
from tutti.tasks.retrieval.probe import overlap_share
from tutti.tasks.retrieval.spec import IndexSpec

DEPTH = 10
FAISS_DEFAULT = int(faiss.cvar.distance_compute_blas_threshold)
EXACT_QUERIES = 200  # of a repeat of the recall; FAISS's Flat does about 14 of them a CPU-second
PEER_BATCH = 64
SEARCH_BATCH = 256
SUBSET = 10_000
BUILD_DOCUMENTS = 10_000
CONCURRENCY = 64
LOAD_S = 4.0
RATE_PER_S = 1_000.0
LIGHT_RATES_PER_S = (200, 500)
SPEC = IndexSpec(kind="ivf", template="{text}", shard_documents=65_536)


def build_large(report: Report, root: Path, documents: int) -> Path:
    """Vectors and an index with inverted lists over them; returns its folder."""
    seconds = seconds_of(lambda: write_vectors(root, documents, QUERIES))
    began = time.perf_counter()
    last = [began]

    def show(stage: str, done: int, total: int) -> None:
        if time.perf_counter() - last[0] > 10:
            last[0] = time.perf_counter()
            print(f"  {stage} {done:,} of {total:,}", file=sys.stderr)

    with Catalog(Home(root)) as catalog:
        folder = build_index(Numbered(documents), catalog, SPEC, TableEmbedder(root), progress=show)
    report.figure("large_build_s", [time.perf_counter() - began])
    report.note(
        f"{documents:,} vectors of {DIMENSIONS} dimensions in 20,000 clusters, made in "
        f"{seconds:.0f} s; {list_count(SPEC, documents):,} lists, {SPEC.probes} probed; "
        "large_build_s is hashing, storing, training and adding, without embedding."
    )
    return folder


def measure_search(report: Report, index: Index, queries: Vectors, repeats: int) -> None:
    """Recall of each repeat's own queries; rate over all of them."""
    recalls, rates, filtered, by_cpu = [], [], [], []
    subset = np.random.default_rng(0).permutation(len(index.vectors))[:SUBSET]
    rows = np.sort(subset).astype(np.int64)
    for nth in range(repeats):
        part = queries[nth * EXACT_QUERIES : (nth + 1) * EXACT_QUERIES]
        exact = search_exact(part, index.vectors, DEPTH)
        recalls.append(overlap_share(exact, index.nearest(part, DEPTH)))

        def search_all() -> None:
            for start in range(0, len(queries), SEARCH_BATCH):
                index.nearest(queries[start : start + SEARCH_BATCH], DEPTH)

        before = time.process_time()
        rates.append(len(queries) / seconds_of(search_all))
        by_cpu.append(len(queries) / (time.process_time() - before))
        filtered.append(len(part) / seconds_of(lambda: index.nearest(part, DEPTH, rows)))  # noqa: B023
    report.figure("recall_at_10", recalls, Target(0.95, least=True))
    report.figure("queries_per_s", rates, Target(4_000, least=True))
    report.figure("queries_per_cpu_s", by_cpu)
    report.figure("filtered_exact_queries_per_s", filtered)
    report.note(
        f"queries_per_s in one process, batches of {SEARCH_BATCH}; filtered_exact is exact among "
        f"{SUBSET:,} given documents, batches of {EXACT_QUERIES}."
    )


def measure_exact(report: Report, vectors: Vectors, queries: Vectors, repeats: int) -> None:
    """Our exact search and FAISS's Flat in turn, on the same queries, one thread each.

    FAISS as it comes, and with BLAS from the first batch on, which it leaves off by default.
    """
    limit_threads(1)  # threads that wait by spinning would count as work
    held = np.ascontiguousarray(vectors)
    flat = faiss.IndexFlatIP(held.shape[1])
    flat.add(held)

    def with_limit(limit: int, part: Vectors) -> Rows:
        faiss.cvar.distance_compute_blas_threshold = limit
        rows: Rows = flat.search(part, DEPTH)[1]
        return rows

    contestants: dict[str, Callable[[Vectors], Rows]] = {
        "ours": lambda part: search_exact(part, held, DEPTH).rows,
        "faiss_flat": lambda part: with_limit(FAISS_DEFAULT, part),
        "faiss_flat_blas": lambda part: with_limit(BLAS_FROM_QUERIES * DIMENSIONS, part),
    }
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    same = []
    for nth in range(repeats):
        part = queries[nth * PEER_BATCH : (nth + 1) * PEER_BATCH]
        found = {}
        for name, search in contestants.items():
            began = time.process_time()
            found[name] = search(part)
            rates[name].append(PEER_BATCH / (time.process_time() - began))
        same += [float((found["ours"] == rows).mean()) for rows in found.values()]
    for peer, target in (("faiss_flat", Target(3, least=True)), ("faiss_flat_blas", None)):
        ratios = [a / b for a, b in zip(rates["ours"], rates[peer], strict=True)]
        report.figure(f"exact_vs_{peer}_ratio", ratios, target)
        report.peer(peer, "queries_per_cpu_s", rates[peer])
    report.figure("exact_queries_per_cpu_s", rates["ours"])
    report.figure("exact_same_ids_ratio", same, Target(1, least=True))
    report.note(
        f"exact: in turn, batches of {PEER_BATCH}, one thread each, by CPU-second. faiss_flat is "
        "FAISS as it comes, which calls BLAS from 128,000 queries x dimensions on; faiss_flat_blas "
        "is FAISS told to call it always: the fair peer for anyone who knows that setting."
    )


def measure_service(report: Report, folder: Path, root: Path, repeats: int) -> None:
    """Starting, one client alone, 64 at once, and 1,000 requests a second."""
    command = [sys.executable, "-m", "bench.retrieval.service", str(folder), str(root)]
    starts = [
        seconds_of(lambda: subprocess.run([*command, "once"], check=True)) for _ in range(repeats)
    ]
    report.figure("start_s", starts, Target(5))
    port = free_port()
    everywhere = sorted(os.sched_getaffinity(0))
    found, spent = [], []
    light: dict[int, list[float]] = {rate: [] for rate in LIGHT_RATES_PER_S}
    with Server([*command, str(port)], root / "service.log", everywhere) as server:
        server.wait_ready(f"http://127.0.0.1:{port}/health")
        run_job(Job(port, CONCURRENCY, 1.0))
        for _ in range(repeats):
            one = run_job(Job(port, 1, LOAD_S / 2))
            before = cpu_s(server.owner)
            many = run_job(Job(port, CONCURRENCY, LOAD_S))
            spent.append((cpu_s(server.owner) - before) / many.asked * 1e6)
            paced = run_job(Job(port, CONCURRENCY, LOAD_S, RATE_PER_S))
            found.append((one, many, paced))
            for rate, p95_ms in light.items():
                p95_ms.append(run_job(Job(port, CONCURRENCY, LOAD_S / 2, rate)).p95_ms)
    target = Target(RATE_PER_S, least=True)
    report.figure("service_requests_per_s", [many.per_s for _, many, _ in found], target)
    report.figure("service_cpu_us_per_request", spent)
    report.figure("service_one_p50_ms", [one.p50_ms for one, _, _ in found])
    report.figure("service_one_p95_ms", [one.p95_ms for one, _, _ in found])
    for rate, p95_ms in light.items():
        report.figure(f"service_at_{rate}_p95_ms", p95_ms)
    report.figure("service_64_p95_ms", [many.p95_ms for _, many, _ in found])
    report.figure("service_paced_per_s", [paced.per_s for _, _, paced in found])
    report.figure("service_paced_p95_ms", [paced.p95_ms for _, _, paced in found])
    ratios = [paced.p95_ms / one.p50_ms for one, _, paced in found]
    report.figure("service_paced_p95_vs_one_ratio", ratios, Target(2))
    closed = [many.p95_ms / one.p50_ms for one, many, _ in found]
    report.figure("service_64_p95_vs_one_ratio", closed)
    report.note(
        "start_s: from the process to its first answer, imports included, files in the page cache. "
        f"service_64: {CONCURRENCY} clients that each ask again when answered; their latency is "
        f"{CONCURRENCY} divided by their rate, whatever the service does. paced: "
        f"{RATE_PER_S:,.0f} requests a second over {CONCURRENCY} connections; at_N: N a second. "
        "one: a client alone."
    )


def measure_build(report: Report, root: Path, repeats: int) -> None:
    """Documents a second of whole builds with the local embedder and BM25."""
    passages, rates = list(texts(BUILD_DOCUMENTS)), []
    for nth in range(repeats):
        home = root / f"build-{nth}"
        home.mkdir()
        with Catalog(Home(home)) as catalog:
            spec = IndexSpec(words=True)
            rates.append(
                len(passages) / seconds_of(lambda: build_index(passages, catalog, spec))  # noqa: B023
            )
    report.figure("build_docs_per_s", rates)
    report.note(
        f"build_docs_per_s: {BUILD_DOCUMENTS:,} texts of 60 words, hashed, embedded by the local "
        "embedder in one process, BM25 and the recall probe included."
    )


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description="Measure retrieval.")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    report = Report("retrieval", given.repeats)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        folder = build_large(report, root, given.documents)
        queries = np.load(root / "queries.npy")
        index = Index(folder, TableEmbedder(root))
        measure_search(report, index, queries, given.repeats)
        measure_service(report, folder, root, given.repeats)
        measure_exact(report, index.vectors, queries, given.repeats)
        measure_build(report, root, min(3, given.repeats))
        report.show()


if __name__ == "__main__":
    main()
