"""Which files of a model's repository are fetched.

In: the files that the Hub lists. Out: those that serving needs: weights in one form, configuration,
tokenizer, templates; not the same weights in other forms, of which many repositories hold two or
three.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.gguf_files import PART
from tutti.tasks.serving.weights.reading import INDEX, SINGLE

SMALL = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py", ".v3")
"""Endings of files beside the weights; a program among them runs only where a server is told to."""
MAX_SMALL_BYTES = 100_000_000
OTHER_FORMS = ("consolidated",)
"""Beginnings of the names of weights that repeat the others in another form."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository."""

    name: str
    bytes: int
    blob: str
    """Its name in the cache: SHA-256 of a large file, Git's hash of a small one."""


def choose_files(name: str, files: Iterable[HubFile]) -> list[HubFile]:
    """The files to fetch of the repository `name`. Raises WeightsError where it has no weights that
    can be served, or several models in GGUF form."""
    every = list(files)
    weights = _safetensors(every) or _gguf(name, every)
    if not weights:
        kinds = sorted({PurePosixPath(file.name).suffix for file in every} - {""})
        raise WeightsError(
            f"{name}: neither {SINGLE}, {INDEX} nor a .gguf file in its repository (it has "
            f"{', '.join(kinds) or 'nothing'}); name a repository with safetensors"
        )
    small = [file for file in every if file.name.endswith(SMALL) and file.bytes <= MAX_SMALL_BYTES]
    return [*weights, *small]


def _safetensors(files: Sequence[HubFile]) -> list[HubFile]:
    names = {file.name for file in files}
    if SINGLE in names and INDEX not in names:
        return [file for file in files if file.name == SINGLE]
    if INDEX not in names:
        return []
    return [
        file
        for file in files
        if file.name.endswith(".safetensors")
        and "/" not in file.name
        and not file.name.startswith(OTHER_FORMS)
    ]


def _gguf(name: str, files: Sequence[HubFile]) -> list[HubFile]:
    found = [file for file in files if file.name.endswith(".gguf")]
    models = {(part["name"] if (part := PART.match(f.name)) else f.name) for f in found}
    if len(models) > 1:
        raise WeightsError(
            f"{name}: {len(models)} models in GGUF form ({', '.join(sorted(models)[:4])}, …); "
            f"fetch one by hand with `hf download {name} FILE --local-dir FOLDER`, and name "
            "FOLDER/FILE"
        )
    return found
