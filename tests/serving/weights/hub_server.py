"""The Hub's API on loopback, limited to listing and downloading a model."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
TOKEN = "hf_secretsecretsecret"
"""What a gated model wants."""


class Hub:
    """One repository with one commit, and the requests for it."""

    def __init__(self, name: str, files: Mapping[str, bytes], gated: bool = False) -> None:
        self.name, self.files, self.gated = name, files, gated
        self.requests: list[str] = []
        self.url = ""
        self.delay_s = 0.0
        """Before each answer."""
        self.closing = threading.Event()

    def listing(self) -> dict[str, Any]:
        return {
            "_id": "1",
            "id": self.name,
            "sha": COMMIT,
            "siblings": [self._sibling(name, data) for name, data in self.files.items()],
        }

    def _sibling(self, name: str, data: bytes) -> dict[str, Any]:
        found = {"rfilename": name, "size": len(data), "blobId": git_hash(data)}
        if not name.endswith(".safetensors"):
            return found
        sha = hashlib.sha256(data).hexdigest()
        return {**found, "lfs": {"sha256": sha, "size": len(data), "pointerSize": 130}}

    def tree(self) -> list[dict[str, Any]]:
        return [self._entry(name, data) for name, data in self.files.items()]

    def _entry(self, name: str, data: bytes) -> dict[str, Any]:
        found = {"type": "file", "path": name, "size": len(data), "oid": git_hash(data)}
        if not name.endswith(".safetensors"):
            return found
        lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return {**found, "lfs": lfs}


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.reply(with_body=False)

        def do_GET(self) -> None:
            self.reply(with_body=True)

        def log_message(self, format: str, *args: object) -> None:
            """Suppress the log."""

        def reply(self, with_body: bool) -> None:
            path = unquote(self.path.partition("?")[0])
            hub.requests.append(f"{self.command} {path}")
            hub.closing.wait(hub.delay_s)
            if hub.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                said = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"}
                self.send(403, b"{}", said, with_body)
            elif path.startswith(f"/api/models/{hub.name}/revision/"):
                self.revision(path.rpartition("/")[2], with_body)
            elif path == f"/api/models/{hub.name}/tree/{COMMIT}":
                self.send(200, json.dumps(hub.tree()).encode(), {}, with_body)
            elif path.startswith(f"/{hub.name}/resolve/{COMMIT}/"):
                self.file(path.removeprefix(f"/{hub.name}/resolve/{COMMIT}/"), with_body)
            else:
                code = {"X-Error-Code": "RepoNotFound"}
                self.send(404, b"{}", code, with_body)

        def revision(self, revision: str, with_body: bool) -> None:
            if revision in ("main", COMMIT):
                self.send(200, json.dumps(hub.listing()).encode(), {}, with_body)
            else:
                self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, with_body)

        def file(self, name: str, with_body: bool) -> None:
            data = hub.files[name]
            large = name.endswith(".safetensors")
            tag = hashlib.sha256(data).hexdigest() if large else git_hash(data)
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'}
            if large:
                headers |= {"X-Linked-ETag": f'"{tag}"', "X-Linked-Size": str(len(data))}
            self.send(200, data, headers, with_body)

        def send(self, code: int, body: bytes, headers: Mapping[str, str], whole: bool) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if whole:
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.closing.set()
            server.shutdown()
            thread.join()
