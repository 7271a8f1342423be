"""The files of an imported index: a FAISS file and the JSONL file of its documents, in the same
order.

`ForeignIndex` is FAISS's own index over the mapped file and, where the file holds plain vectors, a
view of them. Nothing is copied and almost nothing is read: an index of 97 GB opens as fast as a
small one.
"""

import hashlib
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np

from tutti.storage import replacing
from tutti.tasks.platform import PACKAGE
from tutti.tasks.retrieval.ann import Ann
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.errors import ImportRefused, IndexDamaged
from tutti.tasks.retrieval.spec import IndexSpec

LINKS = "imported.json"
CHUNK_BYTES = 1 << 24
SAMPLED = 4_096  # vectors whose lengths are looked at
UNIT_WITHIN = 0.02  # an embedder's half precision leaves about 0.001
PROBE_S, PROBE_BYTES_A_S = 60, 50_000_000  # time limit of the first search; it grows with the file
PROBE_BYTES = 8 << 30  # memory beside the file's: a damaged size field asks for more
PROBE = (
    "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); "
    "from tutti.tasks.retrieval.foreign import probe; probe(Path(sys.argv[2]))"
)
Kind = Literal["flat", "ivf", "hnsw"]


@dataclass(frozen=True)
class LinkedFile:
    """A file outside the store, as it was when it was imported."""

    path: str
    size: int
    modified_ns: int
    sha256: str

    @classmethod
    def of(cls, path: Path, advance: Callable[[int, int], None]) -> "LinkedFile":
        """Read the file once for its hash; `advance` gets (MB read, MB). Raises ImportRefused."""
        try:
            status = path.stat()
            digest, done = hashlib.sha256(), 0
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
                    done += len(chunk)
                    advance(done >> 20, status.st_size >> 20)
        except OSError as error:
            raise ImportRefused(f"{path}: {error.strerror or error}") from error
        return cls(str(path.resolve()), status.st_size, status.st_mtime_ns, digest.hexdigest())

    def checked(self) -> Path:
        """Return its path. Raises IndexDamaged if the file is missing or was changed."""
        path = Path(self.path)
        try:
            status = path.stat()
        except OSError as error:
            raise IndexDamaged(f"{path}, which an index was imported from: {error}") from error
        if (status.st_size, status.st_mtime_ns) != (self.size, self.modified_ns):
            raise IndexDamaged(f"{path} was changed after its import; import it again")
        return path


@dataclass(frozen=True)
class Links:
    """The two files of an imported index."""

    vectors: LinkedFile
    documents: LinkedFile

    def save(self, folder: Path) -> None:
        with replacing(folder / LINKS) as staging:
            staging.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, folder: Path) -> "Links | None":
        """The links of an index's folder; None for an index that tutti built."""
        if not (folder / LINKS).is_file():
            return None
        stored = json.loads((folder / LINKS).read_text())
        return cls(**{name: LinkedFile(**file) for name, file in stored.items()})


@dataclass(frozen=True)
class ForeignIndex:
    """FAISS's index over a mapped file."""

    index: Any
    kind: Kind
    vectors: Vectors | None  # a view [n, d]; None where they are compressed or in lists
    distances: bool  # whether it ranks by squared distance, not by inner product

    def searcher(self, spec: IndexSpec, gpus: int) -> Ann | None:
        """Return FAISS's own search; None if the plain vectors are searched exactly."""
        if self.kind == "flat" and self.vectors is not None and not gpus:
            return None
        # Compressed codes without lists stay on the CPU: filters and any k work there.
        on_gpus = gpus if self.vectors is not None else 0
        return Ann.over(self.index, spec, on_gpus, self.distances)


def probe_in_child(path: Path) -> None:
    """Open and search a FAISS file in a process of its own: a damaged one can end its reader, or
    fill its memory. Raises ImportRefused."""
    if not path.is_file():
        raise ImportRefused(f"{path}: no such file")
    limit_s = PROBE_S + path.stat().st_size // PROBE_BYTES_A_S
    command = [sys.executable, "-I", "-c", PROBE, str(PACKAGE.parent), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise ImportRefused(f"{path}: no search of it ended within {limit_s} s") from None
    if done.returncode < 0:
        why = f"the process that read it got {signal.Signals(-done.returncode).name}"
    elif done.returncode:
        why = done.stderr.strip().rsplit("\n", 1)[-1][:200]
    else:
        return
    raise ImportRefused(f"{path}: FAISS does not read it: {why}")


def probe(path: Path) -> None:
    """Search all of a file within a memory limit. `open_foreign` refuses other kinds later."""
    most = PROBE_BYTES + 3 * path.stat().st_size
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        foreign = open_foreign(path)
    except ImportRefused:
        return
    ann = foreign.searcher(IndexSpec(kind=foreign.kind, probes=foreign.index.ntotal), 0)
    if ann is not None:
        rows = ann.search(np.eye(1, foreign.index.d, dtype=np.float32), 10).rows
        assert rows.max() < foreign.index.ntotal, f"a search finds row {rows.max()}"


def open_foreign(path: Path) -> ForeignIndex:
    """Map a FAISS file. Raises ImportRefused for another file, or an unsupported kind."""
    try:
        index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except (RuntimeError, OSError) as error:
        why = str(error).strip().rsplit("\n", 1)[-1][:200]
        raise ImportRefused(f"{path}: FAISS does not read it: {why}") from error
    if index.ntotal == 0:
        raise ImportRefused(f"{path}: the index is empty")
    metrics = (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2)
    if index.metric_type not in metrics:
        raise ImportRefused(f"{path}: its metric is neither inner product nor L2")
    distances = index.metric_type == faiss.METRIC_L2
    is_graph = isinstance(index, faiss.IndexHNSW)
    plain: Any = faiss.downcast_index(index.storage) if is_graph else index
    if isinstance(plain, faiss.IndexFlat):
        vectors: Vectors = np.asarray(_Held(plain, index))
        vectors.flags.writeable = False
        _check_lengths(path, vectors)
        return ForeignIndex(index, "hnsw" if is_graph else "flat", vectors, distances)
    if isinstance(index, faiss.IndexIVF):
        return ForeignIndex(index, "ivf", None, distances)
    if isinstance(index, faiss.IndexFlatCodes):  # compressed vectors in order, all scanned
        return ForeignIndex(index, "flat", None, distances)
    raise ImportRefused(
        f"{path}: {type(index).__name__} is not read; read are IndexFlat, IndexHNSWFlat, inverted "
        "lists (IndexIVF...), and flat codes (IndexScalarQuantizer, IndexPQ)"
    )


class _Held:
    """Memory of a FAISS index as a numpy array, which keeps the index alive as long as it lives."""

    def __init__(self, flat: Any, owner: Any) -> None:
        library: Any = faiss
        values = library.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d)
        self.__array_interface__ = values.reshape(flat.ntotal, flat.d).__array_interface__
        self._owner = owner


def _check_lengths(path: Path, vectors: Vectors) -> None:
    """Check that the vectors have unit length, because exact search ranks by inner products."""
    rows = np.linspace(0, len(vectors) - 1, min(SAMPLED, len(vectors))).astype(np.int64)
    lengths = np.linalg.norm(np.asarray(vectors[rows], dtype=np.float64), axis=1)
    worst = int(np.argmax(np.abs(lengths - 1)))
    if not abs(lengths[worst] - 1) <= UNIT_WITHIN:  # NaN, too
        found = f"vector {rows[worst]} has length {lengths[worst]:.4g}"
        raise ImportRefused(f"{path}: {found}; vectors must have unit length")
