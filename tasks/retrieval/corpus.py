"""The standard-library corpus: one `Document` for each public function, class and method of the
Python that runs this. Executing Python checks the truth of every question about them."""

import functools
import hashlib
import importlib
import inspect
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from tutti.storage import artifact_id
from tutti.tasks.platform import PACKAGE

# Modules that open a browser, print on import, need a display, or are test suites.
SKIPPED_MODULES = frozenset(
    "antigravity this idlelib turtle turtledemo tkinter lib2to3 test ensurepip venv pip".split()
)
SUMMARY_CHARS = 60  # one line: enough to tell documents apart, short enough for small contexts
ADDRESS = re.compile(r" at 0x[0-9a-f]+|<[^<>]*>")
TEST_SHARE_PERCENT = 20
INSPECT_TIMEOUT_S = 60.0
STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name and the `repr` of its default (None: no default)."""

    name: str
    default: str | None


@dataclass(frozen=True)
class Document:
    """One documented object of the standard library."""

    name: str  # full dotted name, such as ``json.dumps``; unique in a corpus
    module: str
    kind: str  # ``function``, ``class`` or ``method``
    parameters: tuple[Parameter, ...] | None  # None if Python cannot determine the signature
    summary: str

    @property
    def short_name(self) -> str:
        return self.name.rsplit(".", 1)[-1]

    @property
    def text(self) -> str:
        """The text for the embedding and an agent's search: short labelled lines."""
        lines = [self.name, f"module {self.module}", f"kind {self.kind}"]
        if self.parameters is not None:
            lines.append(f"takes {len(self.parameters)}")
            for position, parameter in enumerate(self.parameters, 1):
                default = "" if parameter.default is None else f" = {parameter.default}"
                lines.append(f"{position} {parameter.name}{default}")
        if self.summary:
            lines.append(self.summary)
        return "\n".join(lines)

    @property
    def split(self) -> str:
        """``train`` or ``test``; aliases (the same object in another module) are in the same."""
        body = "|".join([self.short_name, self.kind, repr(self.parameters), self.summary])
        bucket = int(hashlib.sha256(body.encode()).hexdigest()[:8], 16) % 100
        return "test" if bucket < TEST_SHARE_PERCENT else "train"

    def as_row(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "Document":
        """The inverse of `as_row`. Raises ValidationError for a missing field."""
        return _ADAPTER.validate_python(row)


_ADAPTER = TypeAdapter(Document)


def corpus_id(documents: Sequence[Document]) -> str:
    """Artifact id of a corpus: its documents' content, in order."""
    return artifact_id("corpus", [document.as_row() for document in documents])


@functools.cache
def load_stdlib_corpus() -> tuple[Document, ...]:
    """Document the public functions, classes and methods of this Python, sorted by name.

    They are read in a process of their own: loaded libraries replace parts of the standard library,
    and the corpus, whose hash is the root of all lineage, must not depend on that. Raises
    RuntimeError if that process fails.
    """
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); "
        "from tutti.tasks.retrieval.corpus import inspect_stdlib; "
        "json.dump([d.as_row() for d in inspect_stdlib()], sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(PACKAGE.parent)],
        capture_output=True,
        text=True,
        timeout=INSPECT_TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"reading the standard library failed:\n{done.stderr}")
    return tuple(Document.from_row(row) for row in json.loads(done.stdout))


def inspect_stdlib() -> list[Document]:
    """Document this Python as `load_stdlib_corpus` does, but here and without failed imports."""
    documents: dict[str, Document] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(sys.stdlib_module_names):
            if name.startswith("_") or name in SKIPPED_MODULES:
                continue
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            for document in _documents_of_module(name, module):
                documents.setdefault(document.name, document)
    return [documents[name] for name in sorted(documents)]


def _documents_of_module(module_name: str, module: ModuleType) -> Iterator[Document]:
    for attribute, member in sorted(vars(module).items()):
        if attribute.startswith("_") or not (inspect.isroutine(member) or inspect.isclass(member)):
            continue
        if getattr(member, "__module__", None) not in (module_name, f"_{module_name}"):
            continue  # re-exported: documented where it is defined
        kind = "class" if inspect.isclass(member) else "function"
        name = f"{module_name}.{attribute}"
        yield _describe(name, module_name, kind, member, bound=False)
        if inspect.isclass(member):
            yield from _documents_of_class(name, module_name, member)


def _documents_of_class(class_name: str, module_name: str, owner: type) -> Iterator[Document]:
    for attribute in sorted(vars(owner)):
        if attribute.startswith("_"):
            continue
        static = inspect.getattr_static(owner, attribute)
        wrapped = isinstance(static, staticmethod | classmethod)
        function = static.__func__ if wrapped else static
        if inspect.isroutine(function):
            bound = not isinstance(static, staticmethod)
            yield _describe(f"{class_name}.{attribute}", module_name, "method", function, bound)


def _describe(name: str, module: str, kind: str, member: Any, bound: bool) -> Document:
    documentation = inspect.getdoc(member) or ""
    summary = " ".join(ADDRESS.sub("", documentation).strip().split("\n\n")[0].split())
    if len(summary) > SUMMARY_CHARS:
        summary = summary[: SUMMARY_CHARS + 1].rsplit(" ", 1)[0]
    return Document(name, module, kind, _parameters(member, bound), summary)


def _parameters(member: Any, bound: bool) -> tuple[Parameter, ...] | None:
    try:
        signature = inspect.signature(member)
    except (ValueError, TypeError, AttributeError):
        return None  # C code without a text signature (or with one that does not evaluate)
    parameters = []
    for p in signature.parameters.values():
        text = repr(p.default)  # of a memory address or an object that is no literal: "..."
        text = "..." if ADDRESS.search(text) or len(text) > 24 or "\n" in text else text
        default = None if p.default is p.empty else text
        parameters.append(Parameter(STARS.get(p.kind, "") + p.name, default))
    return tuple(parameters[1:] if bound else parameters)
