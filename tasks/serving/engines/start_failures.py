"""Why an engine did not start, in one line: what happened, and what to do.

In: how its process ended and its log. Out: the line for the message, before the log's end. Servers
print the cause in the middle of long tracebacks, and end with a general error.
"""

import re

KILLED = 137
"""The exit code of a process that SIGKILL has ended, as shells give it."""
GPU_MEMORY = (
    r"OutOfMemoryError|CUDA out of memory|HIP out of memory|cudaMalloc failed: out of memory"
    r"|Free memory on device|No available memory for the cache blocks"
    r"|larger than the available KV"
)
PORT = (
    r"\[Errno 98\]|error while attempting to bind on address|couldn't bind HTTP server socket"
    r"|failed to bind to address"
)
_BEFORE_ERROR = re.compile(r"^.*?(?=(?<![\w.])[\w.]*(?:Error|Exception): )")
_PORT = re.compile(PORT, re.IGNORECASE)
_ERROR_LINE = re.compile(r"\b[A-Z]\w*(Error|Exception)\b: \S")


KNOWN: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(GPU_MEMORY),
        "out of memory",
        "`tutti gpus` shows who else has the GPU; lower context_tokens, engine.max_sequences or "
        "engine.memory_share, or spread the model by engine.tensor_parallel",
    ),
    (
        re.compile(r"No space left on device"),
        "the disk is full",
        "make room in TMPDIR and TUTTI_HOME, and run it again",
    ),
    (
        re.compile(r"^cannot start /\S+: ", re.MULTILINE),
        "its program cannot be run",
        "see that the file is there, is for this machine, and may be executed",
    ),
    (
        re.compile(r"CUDA driver version is insufficient|Found no NVIDIA driver|no CUDA-capable"),
        "the NVIDIA driver does not serve this build",
        "`nvidia-smi` shows the driver; `MODELS=cpu make setup` makes an environment without it",
    ),
)
"""Causes that are known by what servers write: the pattern, what happened, and what to do."""


def is_port_taken(log: str) -> bool:
    """Whether a server ended because another process listens at its port."""
    return _PORT.search(log) is not None


def explain(role: str, code: int | None, log: str) -> str:
    """Return one line: how the start of a server ended, its cause, and what to do. `code`: its exit
    code; None if it still ran when its time was over."""
    ended = f"{role} exited with code {code}" if code is not None else f"{role} was not ready"
    for pattern, happened, fix in KNOWN:
        if pattern.search(log):
            return f"{ended}: {happened} ({_line_with(pattern, log)}); {fix}"
    if code is None:
        return f"{ended} in time; engine.start_timeout_s gives it longer"
    if code == KILLED:
        return (
            f"{ended}: it was killed, by a user or by the kernel when the machine's memory was "
            "full; `dmesg` shows which"
        )
    first = _line_with(_ERROR_LINE, log)
    return f"{ended}: {first}" if first else f"{ended} and named no error"


def _line_with(pattern: re.Pattern[str], log: str) -> str:
    for line in log.splitlines():
        if pattern.search(line):
            return _BEFORE_ERROR.sub("", line).strip()[:300]
    return ""
