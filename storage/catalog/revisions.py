"""Migrates a catalog to the current revision, and refuses one that a newer tutti made.

A new catalog is created at the current revision. An older one is migrated by `migrations/` under
the write lock: of several processes that open it at once, one migrates and the others wait.
"""

from importlib import resources
from typing import Any

import sqlalchemy as sa

from tutti.storage.catalog.tables import metadata
from tutti.storage.errors import StoreError

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Every revision, oldest first; a new one is a file in `migrations/versions` and an entry here."""

alembic_version = sa.Table(
    "alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True)
)


def revision(connection: sa.Connection) -> str | None:
    """The catalog's revision; None for an empty database.

    Raises StoreError for a revision this code does not know.
    """
    names = set(sa.inspect(connection).get_table_names())
    if "alembic_version" not in names:
        return "0001" if "parts" in names else None  # the first release stored no revision
    found = connection.execute(sa.select(alembic_version.c.version_num)).scalar_one()
    if found not in REVISIONS:
        raise StoreError(
            f"the catalog is at revision {found!r}, made by a newer tutti than this one, which "
            f"knows {REVISIONS[0]} to {REVISIONS[-1]}; upgrade tutti"
        )
    return str(found)


def bring_up_to_date(connection: sa.Connection) -> None:
    """Create or migrate the catalog inside the caller's transaction, which holds the write lock."""
    found = revision(connection)
    if found is None:
        metadata.create_all(connection)
        alembic_version.create(connection)
        connection.execute(sa.insert(alembic_version).values(version_num=REVISIONS[-1]))
    elif found != REVISIONS[-1]:
        _migrate(connection, found)


def _migrate(connection: sa.Connection, found: str) -> None:
    from alembic import command

    config = alembic_config()
    config.attributes["connection"] = connection
    if not sa.inspect(connection).has_table("alembic_version"):
        command.stamp(config, found)
    command.upgrade(config, REVISIONS[-1])


def alembic_config() -> Any:
    """Alembic's configuration for this catalog; ``attributes["connection"]`` is for the caller."""
    from alembic.config import Config

    config = Config()
    folder = resources.files("tutti.storage.catalog").joinpath("migrations")
    config.set_main_option("script_location", str(folder))
    return config
