"""Fixtures of the store that imports write to, with a catalog in SQLite and in PostgreSQL."""

from tests.storage.conftest import _no_store_of_the_user as _no_store_of_the_user
from tests.storage.conftest import catalog as catalog
from tests.storage.conftest import database as database
from tests.storage.conftest import empty_database as empty_database
from tests.storage.conftest import home as home
from tests.storage.conftest import postgres_url as postgres_url
from tests.storage.conftest import worker_environment as worker_environment
