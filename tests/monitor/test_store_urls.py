"""Which store a URL means, and what is said of one that means none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pywrapai.exceptions import ConfigurationError, MissingDependencyError
from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.mysql import MySQLStore
from pywrapai_monitor.db.postgres import PostgresStore
from pywrapai_monitor.db.server import ServerStore
from pywrapai_monitor.db.sqlite import SQLiteStore
from pywrapai_monitor.db.urls import STORES, store_from_url
from tests.contracts.store_rows import Clock, save_turn, texts

NOBODY = "u:s3cret@127.0.0.1:1/library"


@pytest.mark.parametrize("prefix", ["", "sqlite:///", "sqlite+pysqlite:///"])
def test_a_path_and_an_sqlite_url_are_a_file(tmp_path: Path, prefix: str) -> None:
    store = store_from_url(f"{prefix}{tmp_path / 'library.db'}")

    assert isinstance(store, SQLiteStore)
    save_turn(store, "q")
    assert texts(SQLiteStore(tmp_path / "library.db")) == ["q", "re: q"]


def test_a_path_object_is_a_file_and_options_reach_the_store(tmp_path: Path) -> None:
    clock = Clock()
    store = store_from_url(tmp_path / "library.db", clock=clock)
    save_turn(store, "q")

    assert store.get_overview()["first_at"] == clock.iso()


@pytest.mark.parametrize(
    ("url", "driver", "place"),
    [
        ("postgresql://", "psycopg2", "postgresql://u@127.0.0.1:1/library"),
        ("postgres://", "psycopg2", "postgresql://u@127.0.0.1:1/library"),
        ("postgresql+psycopg2://", "psycopg2", "postgresql://u@127.0.0.1:1/library"),
        ("mysql://", "pymysql", "mysql://u@127.0.0.1:1/library"),
        ("mysql+pymysql://", "pymysql", "mysql://u@127.0.0.1:1/library"),
        ("mariadb://", "pymysql", "mysql://u@127.0.0.1:1/library"),
    ],
)
def test_a_server_is_tried_with_its_driver_and_named_without_its_password(
    url: str, driver: str, place: str
) -> None:
    with pytest.raises(StoreError) as caught:
        store_from_url(url + NOBODY)

    assert str(caught.value).startswith(f"{place}: ")
    assert caught.value.retryable
    assert driver in repr(caught.value.__cause__)
    assert "s3cret" not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize("scheme", STORES)
def test_every_scheme_has_a_store(scheme: str) -> None:
    home, store, _ = STORES[scheme]

    assert home in {kind.__module__ for kind in (SQLiteStore, PostgresStore, MySQLStore)}
    assert store in {kind.__name__ for kind in (SQLiteStore, PostgresStore, MySQLStore)}


def test_an_unknown_scheme_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'mongodb' .*sqlite://.*mysql://") as caught:
        store_from_url("mongodb://u:s3cret@127.0.0.1/d")

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql+pg8000://", "mysql+aiomysql://"])
def test_a_driver_that_is_not_there_is_named(url: str) -> None:
    with pytest.raises(MissingDependencyError, match=r"is not installed, which .*://"):
        store_from_url(url + NOBODY)


@pytest.mark.parametrize(
    ("store", "driver"), [(PostgresStore, "psycopg2"), (MySQLStore, "pymysql")]
)
def test_the_usual_driver_is_told_with_the_line_that_installs_it(
    store: type[ServerStore], driver: str
) -> None:
    code = f"""
import sys
sys.modules[{driver!r}] = None
from {store.__module__} import {store.__name__}
try:
    {store.__name__}("{store._product.schemes[0]}://u@127.0.0.1:1/d")
except ImportError as exc:
    print(exc)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert f'pip install "pywrapai[{store._product.extra}]"' in done.stdout, done.stderr


@pytest.mark.parametrize("wrong", [0, -1, True, "8", 10**6])
def test_a_wrong_number_of_connections_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="max_connections"):
        store_from_url(f"postgresql://{NOBODY}", max_connections=wrong)


def test_an_address_of_ipv6_is_written_with_its_brackets() -> None:
    with pytest.raises(StoreError, match=r"u@\[::1\]:1/d: "):
        store_from_url("postgresql://u@[::1]:1/d")


def test_a_mysql_url_names_a_database() -> None:
    with pytest.raises(ValueError, match="names no database"):
        store_from_url("mysql://u@127.0.0.1")


def test_a_password_may_be_of_any_alphabet() -> None:
    with pytest.raises(StoreError, match="refused"):
        store_from_url("mysql://u:пароль@127.0.0.1:1/d")
