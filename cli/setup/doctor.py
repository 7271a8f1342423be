"""Checks whether this machine can run tutti: the logic of `tutti doctor`.

In: the store, the project, the models environment's Python. Out: `Check`s with findings and fixes.
Each probe of `PROBES` runs in a thread with a time limit: a dead disk fails one row only.
"""

import json
import os
import platform
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tutti.errors import ExitCode
from tutti.tasks import serving
from tutti.tasks.agents import commands
from tutti.tasks.platform import DEPLOYMENTS, IS_SOURCE, MODELS_ENVIRONMENT, gpus
from tutti.tasks.serving import weights as weights_stage
from tutti.terminal import table

if TYPE_CHECKING:
    from rich.table import Table

MODELS_PYTHON_VERSION = "3.11"  # the pinned torch and vLLM have wheels for it
CPU_PINS = {
    "constraint": "constraints-models.txt",
    "override": "models-overrides.txt",
    "requirement": "models-requirements.txt",
}
CUDA_PINS = {
    "constraint": "constraints-models-cuda.txt",
    "requirement": "models-requirements-cuda.txt",
}


class Fixes(NamedTuple):
    """The commands that repair a part of the installation."""

    platform: str
    python: str
    models: str
    checkpoint: str
    registry: str


def installed_fixes(cuda: bool) -> Fixes:
    """The commands for an installed package, with its pinned versions for a CPU or CUDA."""
    reinstall = "reinstall tutti's wheel: pip install --force-reinstall tutti-….whl"
    pins, torch = (CUDA_PINS, "auto") if cuda else (CPU_PINS, "cpu")
    files = [f"--{flag} {shlex.quote(str(DEPLOYMENTS / name))}" for flag, name in pins.items()]
    install = f"uv pip install --python {MODELS_ENVIRONMENT}/bin/python --torch-backend {torch}"
    models = [
        "python -m pip install uv",
        f"uv venv --python {MODELS_PYTHON_VERSION} {MODELS_ENVIRONMENT}",
        " ".join([install, *files]),
    ]
    return Fixes(reinstall, "use Python 3.11 to 3.13", "\n".join(models), reinstall, reinstall)


FIXES = (
    Fixes(
        platform="make setup",
        python="make setup PYTHON=python3.11",
        models="make setup",
        checkpoint="git checkout -- assets/pocket",
        registry="git checkout -- deployments",
    )
    if IS_SOURCE
    else installed_fixes(cuda=shutil.which("nvidia-smi") is not None)
)

PROVIDERS = ("OPENAI", "AZURE_OPENAI", "ANTHROPIC", "TOGETHER", "NEBIUS", "TAVILY")
PROVIDER_KEYS = tuple(f"{provider}_API_KEY" for provider in PROVIDERS)
IMPORT_BOUND_S = 60.0  # vLLM takes 11 s from a cold disk cache on two cores; a busy laptop longer

# Imports what it is given. Its answer is its last line: imports print too.
_IMPORT_SCRIPT = """
import importlib, json, sys
works, fails = {}, {}
for name in sys.argv[1:]:
    try:
        works[name] = str(importlib.import_module(name).__version__)
    except Exception as error:
        fails[name] = f"{type(error).__name__}: {error}"[:200]
cuda = "torch" in works and sys.modules["torch"].cuda.is_available()
print("\\n" + json.dumps([works, fails, cuda]))
"""


def ask(command: list[str], bound_s: float) -> tuple[list[str], str]:
    """Return the lines that a command prints, at least one; or none, and why. When its time is
    over, the command and its child processes are killed."""
    # It gets no key: then none can be in what it prints.
    env = {name: value for name, value in os.environ.items() if name not in PROVIDER_KEYS}
    env |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    pipes: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, "errors": "replace"}
    try:
        process = Popen(command, env=env, start_new_session=True, **pipes)
    except OSError as error:
        return [], error.strerror or str(error)
    try:
        output, errors = process.communicate(timeout=bound_s)
    except TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children hold the pipes too
        process.communicate()
        return [], f"no answer within {bound_s:g} s"
    lines = [line for line in output.splitlines() if line.strip()]
    if process.returncode or not lines:
        last = [*lines, *errors.strip().splitlines()][-1:] or ["it printed nothing"]
        return [], f"exit status {process.returncode}: {last[0][:200]}"
    return lines, ""


def import_in(python: str, packages: Sequence[str]) -> tuple[str, str, bool]:
    """Return versions of the importable packages, the others and why, and whether torch has CUDA.
    The imports run in a separate process, which can be stopped; an import in this one cannot."""
    lines, failure = ask([python, "-c", _IMPORT_SCRIPT, *packages], IMPORT_BOUND_S)
    if failure:
        return "", f"imports failed: {failure}", False
    works, fails, cuda = json.loads(lines[-1])
    versions = ", ".join(f"{name} {version}" for name, version in works.items())
    failures = ", ".join(f"{name} does not import ({why})" for name, why in fails.items())
    return versions, failures, bool(cuda)


Status = Literal["ok", "warning", "missing"]

PACKAGES = ("prefect", "duckdb", "pyarrow", "sqlalchemy", "faiss", "aiohttp", "httptools")
PREFECT_PORT = 4200
TAU2_DATA = "data/tau2/domains"
# Not imported: that takes 5 s, and of the package only its place and version are asked.
_TAU2_SCRIPT = """
from importlib.metadata import version
from importlib.util import find_spec
found = find_spec("tau2")
assert found and found.origin, "no module tau2"
print(version("tau2"), found.origin)
"""
PYTHONS = (3, 11), (3, 13)  # the oldest and the newest that are tested
MIN_CORES = 2  # an engine and the gateway at once; with one core they slow each other's timings
MIN_MEMORY_GB = 4.0  # not measured: room for a small vLLM engine, a Prefect server and the platform
MIN_DISK_GB = 2.0  # a demo's tables, checkpoint and logs, with room to spare
COMMAND_BOUND_S = 10.0  # nvidia-smi takes seconds where the driver sleeps between uses
HTTP_BOUND_S = 3.0  # the server is on this machine
PROBE_BOUND_S = 20.0  # any other probe takes milliseconds; a sleeping or dead disk takes longer
LAKE_BOUND_S = 60.0  # `lake env` compiles the project's lakefile when it has changed
GRACE_S = 5.0  # a probe that bounds its own command ends it and reports within this


@dataclass(frozen=True)
class Place:
    """The folders and programs to check."""

    home: Path  # the store; need not exist
    project: Path  # the folder with assets/ and deployments/
    models_python: Path
    quick: bool = False  # skip the import of vLLM


class Finding(NamedTuple):
    """The result of a check."""

    status: Status
    """"warning": usable, with a remark; "missing": absent or broken."""
    found: str
    fix: str = ""
    """The command that fixes it; several lines are several commands."""


class Probe(NamedTuple):
    """One check: its function, whether tutti needs what it checks, and its time limit."""

    name: str
    look: Callable[[Place], Finding]
    required: bool = True
    bound_s: float = PROBE_BOUND_S


class Check(NamedTuple):
    """One row of the report."""

    name: str
    status: Status
    found: str
    fix: str = ""
    required: bool = True


def look_python(place: Place) -> Finding:
    found = f"{platform.python_version()} at {sys.executable}"
    oldest, newest = PYTHONS
    if oldest <= sys.version_info[:2] <= newest:
        return Finding("ok", found)
    status: Status = "missing" if sys.version_info < oldest else "warning"
    return Finding(status, f"{found}; tutti is tested with 3.11 to 3.13", FIXES.python)


def look_packages(place: Place) -> Finding:
    versions, failures, _ = import_in(sys.executable, PACKAGES)
    if failures:
        return Finding("missing", f"{failures}; {versions}".strip("; "), FIXES.platform)
    return Finding("ok", versions)


def look_models(place: Place) -> Finding:
    python = shutil.which(place.models_python)
    if python is None:
        found = f"no Python at {place.models_python}; TUTTI_MODELS_PYTHON can name one with vLLM"
        return Finding("missing", found, FIXES.models)
    if place.quick:
        return Finding("ok", f"{python}; the import of vLLM was not tested (quick)")
    versions, failures, cuda = import_in(python, ("vllm", "torch"))
    if failures:
        return Finding("missing", f"{python}: {failures}", FIXES.models)
    found = f"{versions}, CUDA {'available' if cuda else 'not available'}"
    if shutil.which("nvidia-smi") is None:
        return Finding("ok", f"{found}: no NVIDIA driver is here" if not cuda else found)
    if not cuda:
        fix = "MODELS=cuda make setup" if IS_SOURCE else FIXES.models
        return Finding("warning", f"{found}, though nvidia-smi is here", fix)
    return Finding("ok", found)


def look_machine(place: Place) -> Finding:
    """Check the number of cores that this process may use, and the memory."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    found = f"{cores} cores, {memory_gb:.1f} GB of memory"
    if cores >= MIN_CORES and memory_gb >= MIN_MEMORY_GB:
        return Finding("ok", found)
    found += f"; recommended: {MIN_CORES} cores and {MIN_MEMORY_GB:g} GB"
    return Finding("warning", found, "use a larger machine")


def look_gpu(place: Place) -> Finding:
    program = shutil.which("nvidia-smi")
    if program is None:
        fix = "add a GPU machine's endpoint to models.yaml"
        return Finding("warning", "no nvidia-smi: small models only, on the CPU", fix)
    query = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    lines, failure = ask([program, *query], COMMAND_BOUND_S)
    if failure:
        return Finding("warning", f"nvidia-smi: {failure}", "nvidia-smi -L")
    return Finding("ok", "; ".join(lines))


def look_gpu_holders(place: Place) -> Finding:
    from tutti.cli.serve.gpus import told_holders

    try:
        return Finding("ok", told_holders(place.home))
    except gpus.GpuError as error:
        return Finding("missing", str(error), "nvidia-smi -L")


def look_home(place: Place) -> Finding:
    """Check that the store, or the folder in which it will be created, can be written and has
    free space."""
    parents = (place.home.absolute(), *place.home.absolute().parents)
    # Not Path.exists, which raises an error where access is denied.
    folder = next(path for path in parents if os.path.exists(path))
    fix = "TUTTI_HOME=/other/disk"
    try:
        # Permission bits do not show quotas and read-only mounts.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"tutti doctor")  # closing the file writes it, and raises if that fails
    except OSError as error:
        return Finding("missing", f"{folder} cannot be written: {error.strerror or error}", fix)
    free_gb = shutil.disk_usage(folder).free / 1e9
    found = f"{place.home} can be {'written' if place.home.exists() else 'created'}"
    found += f", {free_gb:.1f} GB free"
    if free_gb < MIN_DISK_GB:
        return Finding("missing", f"{found}; {MIN_DISK_GB:g} GB needed", fix)
    return Finding("ok", found)


def look_port(place: Place) -> Finding:
    import http.client  # here: it loads slowly; not urllib: that obeys a proxy's variables

    where = f"127.0.0.1:{PREFECT_PORT}"
    connection = http.client.HTTPConnection(where, timeout=HTTP_BOUND_S)
    try:
        connection.request("GET", "/api/health")
        response = connection.getresponse()
        healthy = response.status == 200 and response.read(64).strip() == b"true"
    except ConnectionRefusedError:
        return Finding("ok", f"{where} is free")
    except (OSError, http.client.HTTPException):
        healthy = False
    finally:
        connection.close()
    if healthy:
        return Finding("ok", f"a healthy Prefect server is at {where}")
    found = f"{where} is in use, but not by a healthy Prefect server"
    return Finding("warning", found, "PREFECT_SERVER_API_PORT=4201 prefect server start")


def look_sandbox(place: Place) -> Finding:
    # Imported here, because it loads asyncio and probes by running a program.
    from tutti.tasks.sandbox import SandboxUnavailable, level_for_models

    try:
        level = level_for_models()
    except SandboxUnavailable as error:
        return Finding("warning", str(error), "apt-get install bubblewrap")
    if level == "limits":
        found = f"{level}: no isolation, as TUTTI_SANDBOX says"
        return Finding("warning", found, "apt-get install bubblewrap")
    return Finding("ok", level)


def look_checkpoint(place: Place) -> Finding:
    folder, fix = place.project / "assets" / "pocket", FIXES.checkpoint
    weights = folder / "model.safetensors"
    try:
        weights_stage.read_tensors(weights)
    except serving.WeightsError as error:
        return Finding("missing", str(error), fix)
    if not (cards := sorted(folder.glob("card.*")) or sorted(folder.glob("README.md"))):
        return Finding("missing", f"weights, but no card in {folder}", fix)
    return Finding("ok", f"{weights.stat().st_size / 1e6:.1f} MB, with {cards[0].name}")


def look_registry(place: Place) -> Finding:
    from tutti.tasks.serving.registry import read_registry

    path = place.project / "deployments" / "models.yaml"
    try:
        models = read_registry(path)
    except serving.RegistryError as error:
        return Finding("missing", str(error), f"edit {path}" if path.exists() else FIXES.registry)
    if not models:
        return Finding("missing", f"{path} has no models under `models:`", f"edit {path}")
    return Finding("ok", f"{len(models)} named: {', '.join(models)}")


def look_keys(place: Place) -> Finding:
    present = [name for name in PROVIDER_KEYS if os.environ.get(name)]
    found = ", ".join(f"{k} {'set' if k in present else 'not set'}" for k in PROVIDER_KEYS)
    if present:
        return Finding("ok", found)
    return Finding("warning", found, "export OPENAI_API_KEY=… (only for an external provider)")


def look_tau2(place: Place) -> Finding:
    """Check that tau2's own package is in its environment, with its checkout's data. The package is
    installed from a checkout and in place, so the checkout is found by the package."""
    harness = commands.shipped_harness("{tau2}")
    assert harness is not None, "tau2 is among the shipped harnesses"
    if shutil.which(harness.python) is None:
        found = f"no Python at {harness.python}; TUTTI_HARNESS_TAU2 can name one with tau2"
        return Finding("missing", f"{found} (for tau2-retail and its like)", harness.install)
    lines, failure = ask([str(harness.python), "-c", _TAU2_SCRIPT], COMMAND_BOUND_S)
    if failure:
        return Finding("missing", f"{harness.python}: {failure}", harness.install)
    version, source = lines[-1].split(" ", 1)
    checkout = next((p for p in Path(source).parents if (p / TAU2_DATA).is_dir()), None)
    if checkout is None:
        found = f"tau2 {version} at {source}: no {TAU2_DATA} above it; not from a checkout"
        return Finding("warning", found, harness.install)
    return Finding("ok", f"tau2 {version}, checkout {checkout}: use it as --source")


def look_lean(place: Place) -> Finding:
    """Check that a Lean 4 for proofs is configured and runs; not that its project has Mathlib."""
    from tutti.tasks.scoring import ScorerFailed
    from tutti.tasks.scoring.lean import LEAN_INSTALL, lean_set_up

    try:
        found = lean_set_up()
    except ScorerFailed as error:
        said = str(error).partition("\n")[0].partition("; make one")[0]
        return Finding("missing", f"{said} (for minif2f and its like)", LEAN_INSTALL)
    return Finding("ok", f"{found.version} at {found.command[0]}")


PROBES: tuple[Probe, ...] = (
    Probe("Python", look_python),
    Probe("platform packages", look_packages, bound_s=IMPORT_BOUND_S + GRACE_S),
    # Not required: who brings an endpoint never needs it.
    Probe("models environment", look_models, required=False, bound_s=IMPORT_BOUND_S + GRACE_S),
    Probe("machine", look_machine, required=False),
    Probe("GPU", look_gpu, required=False),
    Probe("GPU holders", look_gpu_holders, required=False),
    Probe("home", look_home),
    Probe("Prefect port", look_port, required=False),
    Probe("sandbox", look_sandbox),
    Probe("pocket checkpoint", look_checkpoint),
    Probe("model registry", look_registry),
    Probe("tau2", look_tau2, required=False),
    Probe("Lean 4", look_lean, required=False, bound_s=LAKE_BOUND_S),
    Probe("provider keys", look_keys, required=False),
)


def examine(home: Path, project: Path, models_python: Path, quick: bool = False) -> list[Check]:
    """Run all probes concurrently, each with its time limit; `quick` skips the import of vLLM."""
    place = Place(home, project, models_python, quick)
    started_s, checks = time.monotonic(), []
    running = [(probe, *_start(probe, place)) for probe in PROBES]
    for probe, thread, findings in running:
        thread.join(max(0.0, started_s + probe.bound_s - time.monotonic()))
        late = Finding("missing", f"no answer within {probe.bound_s:g} s", "tutti doctor --quick")
        checks.append(Check(probe.name, *(findings or [late])[0], probe.required))
    return checks


def render(checks: Sequence[Check]) -> "Table":
    """The report as a table; a fix of several commands is printed below it, by `long_fixes`."""
    from rich.text import Text

    colours = {"ok": "green", "warning": "yellow", "missing": "red"}
    rows = []
    for name, status, found, fix, required in checks:
        text = Text(status, colours[status])
        if status == "missing" and not required:
            text = Text("missing (optional)", "yellow")
        rows.append((name, text, found, fix if "\n" not in fix else "see below"))
    # A truncated path or command is useless.
    return table(dict.fromkeys(("check", "status", "found", "fix"), "fold"), rows)


def long_fixes(checks: Iterable[Check]) -> str:
    """The fixes of several commands as they are: a table would fold them."""
    return "".join(f"\n{each.name}:\n\n{each.fix}\n" for each in checks if "\n" in each.fix)


def exit_code(checks: Sequence[Check]) -> ExitCode:
    """Return an exit code for whether something required is missing."""
    missing = any(check.required and check.status == "missing" for check in checks)
    return ExitCode.FAILED if missing else ExitCode.DONE


def _start(probe: Probe, place: Place) -> tuple[threading.Thread, list[Finding]]:
    """Start a probe; its finding appears in the list. Its thread is a daemon, so that a stuck probe
    does not delay the end of the process."""
    findings: list[Finding] = []

    def run() -> None:
        try:
            findings.append(probe.look(place))
        except Exception as error:  # one failed check must not end the report
            found = f"the check itself failed: {type(error).__name__}: {error}"
            findings.append(Finding("missing", found, "report this as a bug"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, findings
