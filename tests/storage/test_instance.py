"""Tests of the process's DuckDB instance: separate databases, none left over, and the end of the
instance."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

from tutti import storage
from tutti.storage.read import views

BEGIN = {"one": "create table t (a int); create view v as select a + 1 as b from t"}
OTHERS = "select count(*) from duckdb_databases() where not internal and database_name <> 'memory'"


def test_databases_share_definitions_and_no_rows() -> None:
    with views.database(BEGIN) as first, views.database(BEGIN) as second:
        first.execute("insert into t values (1)")
        assert first.execute("select b from v").fetchall() == [(2,)]
        assert second.execute("select b from v").fetchall() == []
        assert second.execute("select current_setting('TimeZone')").fetchall() == [("UTC",)]


def test_a_definition_that_comes_later_is_there() -> None:
    with views.database(BEGIN):
        pass
    with views.database(BEGIN | {"two": "create macro twice(x) as 2 * x"}) as database:
        assert database.execute("select twice(a) from t").fetchall() == []


def test_nothing_is_left_of_a_database_whatever_happens() -> None:
    """The database may have an open transaction or a failed statement."""
    with views.database(BEGIN) as database:
        database.execute("begin; insert into t values (1)")
    with pytest.raises(duckdb.CatalogException), views.database(BEGIN) as database:
        database.execute("from nowhere")
    with views.database(BEGIN) as database:
        assert database.execute(OTHERS).fetchall() == [(1,)]


def test_threads_have_a_database_each() -> None:
    def one(value: int) -> object:
        with views.database(BEGIN) as database:
            database.execute("insert into t values ($1)", [value])
            return database.execute("from t").fetchall()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(40))) == [[(value,)] for value in range(40)]


@pytest.mark.parametrize("error", [duckdb.FatalException, duckdb.InternalException])
def test_an_instance_that_is_broken_is_not_used_again(error: type[duckdb.Error]) -> None:
    with pytest.raises(error), views.database(BEGIN):
        before = views._instance
        raise error("the database has been invalidated")
    with views.database(BEGIN) as database:
        assert database.execute("from t").fetchall() == []
        assert views._instance is not before


def test_a_forked_process_has_an_instance_of_its_own(home: storage.Home) -> None:
    """DuckDB's threads do not exist in the child, so the parent's instance would wait for them
    forever."""
    assert storage.query("select count(*) as n from calls", home) == [{"n": 0}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of later Pythons: threads are running
        child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(storage.query("select count(*) as n from calls", home) != [{"n": 0}])
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
