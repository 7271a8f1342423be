"""Shared fixtures: a new store without the cost of its creation, and the number of generated
cases."""

import gc
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tutti import storage

# A costly property test tries a share of these: `max_examples=settings().max_examples // 4`.
# No deadline: on a busy machine it fails what is right. `make test` draws the same cases every time
# and reads no database of examples; `make fuzz` draws new ones, and a find becomes an `@example`.
# Both say each of these: where the variable `CI` is set, Hypothesis has other defaults.
settings.register_profile(
    "ci", max_examples=100, deadline=None, derandomize=True, database=None, print_blob=False
)
settings.register_profile(
    "fuzz",
    max_examples=500,
    deadline=None,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell that starts the tests in the background has them ignore Ctrl-C, and what they start too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freeze imported objects, so that the garbage collector does not scan them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Disable garbage collection as the gateway does, because a test would otherwise measure the
    scan of all objects of the session."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def pytest_unconfigure() -> None:
    """Unfreeze at exit, because objects of DuckDB's module that stay uncollected are reported as
    leaks."""
    gc.unfreeze()


NewCatalog = Callable[[storage.Home], storage.Catalog]


@pytest.fixture(scope="session")
def new_catalog(tmp_path_factory: pytest.TempPathFactory) -> NewCatalog:
    """Open new stores in SQLite as copies of one that is created once; creating the tables takes
    four times as long as opening."""
    made = storage.Home(tmp_path_factory.mktemp("empty") / "store")

    def open_new(home: storage.Home) -> storage.Catalog:
        if not made.catalog_file.exists():
            storage.open_catalog(made).close()
        home.root.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made.catalog_file, home.catalog_file)
        return storage.open_catalog(home)

    return open_new
