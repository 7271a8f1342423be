"""What a reader sees is of one moment: the parts, and what the catalog says of their rows."""

from typing import Any

import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat

SEEN = "select status, (select count(*) from attempts) as n from cells"


def test_a_commit_between_two_reads_is_seen_whole_or_not_at_all(catalog: storage.Catalog) -> None:
    """A cell's last attempt and its status are committed after the reader has read the parts: the
    reader shows neither. Reading table by table it showed a finished cell with one attempt of
    two."""
    cell: dict[str, Any] = {"cell_id": "c", "sweep_id": "s", "status": "running"}
    cell |= {"benchmark": "b", "model": "m", "policy": "p", "position": 0, "task_set_id": "t"}
    cell |= {"concurrency": 1, "repeat": 0, "index_id": "", "engine_id": "e", "samples": 2}
    catalog.upsert(
        cat.sweeps, {"sweep_id": "s", "name": "n", "spec": "{}", "created_at": cat.now()}
    )
    catalog.upsert(cat.cells, cell)
    storage.commit(catalog, {"attempts": [{"attempt_id": "1", "cell_id": "c"}]})
    between = list[str]()

    def finish(connection: sa.Connection) -> None:
        cat.upsert(connection, cat.cells, cell | {"status": cat.FINISHED})

    def commit_after_the_parts(*of_execute: object) -> None:
        if not between and "FROM parts" in str(of_execute[2]):
            between.append("once")
            storage.commit(catalog, {"attempts": [{"attempt_id": "2", "cell_id": "c"}]}, finish)

    sa.event.listen(sa.Engine, "after_cursor_execute", commit_after_the_parts)
    try:
        seen = storage.query(SEEN, catalog.home)
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", commit_after_the_parts)
    assert between and seen == [{"status": "running", "n": 1}]
    assert storage.query(SEEN, catalog.home) == [{"status": cat.FINISHED, "n": 2}]
