"""Our harness over many answers in one process: ``python bfcl_played.py FOLDER URL < lines``.

In: lines ``{"id", "kind", "model"}``, the folder of `bfcl_episode.py`, and an endpoint that plays
the model named ``model``. Out: a line each, the harness's result. One process a sample would take
some 2 s each.
"""

import contextlib
import importlib
import io
import json
import sys
import tempfile


def main(folder: str, url: str) -> None:
    """Make the attempts, and print what the harness says of each."""
    sys.path.insert(0, folder)
    bfcl_episode = importlib.import_module("bfcl_episode")
    bfcl_model = importlib.import_module("bfcl_model")

    bfcl_model.use_package(tempfile.mkdtemp())
    for line in sys.stdin:
        asked = json.loads(line)
        given = {"id": asked["id"], "request": {}}
        with contextlib.redirect_stdout(io.StringIO()):
            found = bfcl_episode.attempt(given, url, asked["model"], asked["kind"])
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
