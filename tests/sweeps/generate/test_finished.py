"""Tests of a finished folder: the same command has nothing to do, and another model is refused."""

import asyncio
from pathlib import Path

import pytest

from tests.endpoint_double import endpoint
from tests.sweeps.generate.test_files import ROWS, write_chunk
from tests.sweeps.generate.test_work import request_of
from tutti.errors import UsageError
from tutti.flows.generate import GenerateResult, generate_outputs
from tutti.tasks.sweeps.generate import check_file, given_settings, open_work


def finish(folder: Path, model: str) -> None:
    """Write a folder whose files are complete, made with the entry or endpoint `model`."""
    request = request_of(folder, ROWS, samples=1, model=model)
    settings = given_settings(request, check_file(request)) | {"model": "one"}
    open_work(request, 4).write(settings)
    write_chunk(request.path_of(0), ROWS)


def again(folder: Path, model: str) -> GenerateResult:
    """Return the result of the command in that folder with `model`."""
    request = request_of(folder, ROWS, samples=1, model=model)
    return asyncio.run(generate_outputs(request, 4))


def test_another_entry_of_the_registry_is_refused(tmp_path: Path) -> None:
    """The error has file, field and both values; the exit code used to be 0 with "nothing was
    generated"."""
    finish(tmp_path, "one")
    assert again(tmp_path, "one").written == []
    with pytest.raises(UsageError, match=r"generate\.json .* model 'one', now 'two'; give another"):
        again(tmp_path, "two")


def test_another_model_of_an_endpoint_is_refused(tmp_path: Path) -> None:
    """The endpoint is queried for its model's name; if it is unreachable, the folder is complete
    nevertheless, with a note."""
    with endpoint({"id": "one"}) as url:
        finish(tmp_path, url)
        assert again(tmp_path, url).notes == []
    with endpoint({"id": "two"}) as url:
        with pytest.raises(UsageError, match=r"generate\.json .* model 'one', now 'two'"):
            again(tmp_path, url)
    (note,) = again(tmp_path, url).notes
    assert "does not answer" in note and "not known whether it serves the model" in note
