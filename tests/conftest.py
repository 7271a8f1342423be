"""What all folders of tests share: a new store without its wait, and how many cases are tried."""

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
    """What is imported stays to the end: the garbage collector need not look at it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No collection of garbage meanwhile, as in the gateway: it looks at all that a test session
    has made, and a test would measure that."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def pytest_unconfigure() -> None:
    """At Python's end it must: what DuckDB's module leaves uncollected is reported as leaked."""
    gc.unfreeze()


NewCatalog = Callable[[storage.Home], storage.Catalog]


@pytest.fixture(scope="session")
def new_catalog(tmp_path_factory: pytest.TempPathFactory) -> NewCatalog:
    """Opens a new store in SQLite: a copy of one made once, for making its tables costs four times
    what opening does."""
    made = storage.Home(tmp_path_factory.mktemp("empty") / "store")

    def open_new(home: storage.Home) -> storage.Catalog:
        if not made.catalog_file.exists():
            storage.open_catalog(made).close()
        home.root.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made.catalog_file, home.catalog_file)
        return storage.open_catalog(home)

    return open_new
