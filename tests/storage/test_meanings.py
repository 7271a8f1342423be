"""Tests of the comments on tables and columns, and of the page generated from them."""

from pathlib import Path

from tutti import storage
from tutti.storage.base.meanings import as_markdown
from tutti.storage.read.views import commented

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_every_table_and_column_has_a_comment(tmp_path: Path) -> None:
    """This holds for every connection that names no macros."""
    connection = storage.connect(storage.Home(tmp_path / "store"))
    sql = "select table_name, column_name from duckdb_columns() where comment is null"
    sql += " and not internal and not ends_with(table_name, '_schema')"
    assert connection.execute(sql).fetchall() == []
    sql = "select view_name from duckdb_views() where comment is null and not internal"
    assert connection.execute(sql).fetchall() == []
    connection.close()


def test_the_page_is_up_to_date() -> None:
    """Else: python -m tutti.storage.read.views > docs/tables.md."""
    assert PAGE.read_text() == as_markdown(commented())
