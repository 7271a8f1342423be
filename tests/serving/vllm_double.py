"""Fake of vLLM's server without a model, as a process: ``python -m tests.serving.vllm_double --port
N``.

It accepts vLLM's own command line and ignores unknown options, so TUTTI_MODELS_PYTHON may be a
script that runs it. It serves health, metrics, models, completions and vLLM's sleep mode: asleep it
is healthy and answers no call. After a POST to /hang it is healthy and never answers calls again.
Standard library only.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
METRICS = """\
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served = "double"
    context = 0
    awake, works = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(METRICS.encode(), "text/plain")
        elif self.path == "/v1/models":
            listed = {"id": self.served, "max_model_len": self.context}
            self._answer(json.dumps({"data": [listed]}).encode())
        elif self.path == "/is_sleeping":
            self._answer(json.dumps({"is_sleeping": not self.awake.is_set()}).encode())
        else:
            self._answer(b"{}")

    def do_POST(self) -> None:
        """Serve a chat completion whose text is the request's key, or sleep, wake or hang."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        order = self.path.partition("?")[0]
        if order in ("/sleep", "/hang"):
            (self.awake if order == "/sleep" else self.works).clear()
            return self._answer(b'{"status": "sleeping"}')
        if order == "/wake_up":
            self.awake.set()
            return self._answer(b'{"status": "awake"}')
        if order == "/reset_prefix_cache":
            return self._answer(b'{"success": true}')
        self.awake.wait()
        self.works.wait()
        message = {"role": "assistant", "content": self.headers.get("Authorization", "")}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._answer(json.dumps({"choices": [choice], "usage": USAGE}).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log."""

    def _answer(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", default="double")
    parser.add_argument("--max-model-len", type=int, default=0)
    given, _ = parser.parse_known_args()
    Handler.served, Handler.context = given.served_model_name, given.max_model_len
    Handler.awake.set()
    Handler.works.set()
    with ThreadingHTTPServer(("127.0.0.1", given.port), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
