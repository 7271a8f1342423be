"""The service of the retrieval bench: ``python -m bench.retrieval.service INDEX VECTORS PORT``.

In: an index, the folder of the vectors its texts name, a port. Out: the real service, whose
embedder is a table: what is measured is search and service, not a model. With ``once`` for a port:
answers one query and ends, which is what starting costs.
"""

import sys
from pathlib import Path

from bench.retrieval.data import TableEmbedder


def main() -> None:
    """Serve, or answer once."""
    from tutti.tasks.retrieval.index import Index
    from tutti.tasks.retrieval.service import run

    folder, embedder, port = Path(sys.argv[1]), TableEmbedder(Path(sys.argv[2])), sys.argv[3]
    if port == "once":
        (hits,) = Index(folder, embedder).search(["queries 0"], 10)
        assert len(hits) == 10, f"{len(hits)} documents were found"
        return
    run(folder, int(port), embedder=embedder)


if __name__ == "__main__":
    main()
