"""The PostgreSQL store: the contracts, also where the database is set up oddly, and its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode, urlsplit

import psycopg2
import pytest

from pywrapai_monitor.db import postgres as postgres_module
from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.postgres import PostgresStore
from tests.contracts.server_store import (
    OddSettingsContract,
    ServerStoreContract,
    wait_until,
)
from tests.contracts.store_rows import save_turn, texts
from tests.postgres import Postgres, postgres  # noqa: F401
from tests.servers import PrivatePostgres, private_postgres  # noqa: F401

# The fixtures are imported by name, which pytest then gives to tests under that name.
# ruff: noqa: F811

ODD = (
    "SET timezone = 'America/New_York'",
    "SET default_transaction_isolation = 'serializable'",
    "SET extra_float_digits = 0",
    "SET datestyle = 'German'",
    "SET standard_conforming_strings = off",
    "SET escape_string_warning = off",
    "SET transform_null_equals = on",
    "SET bytea_output = 'escape'",
)


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as url:
        yield url


class TestPostgres(ServerStoreContract):
    scheme = "postgresql"
    kill = "SELECT pg_terminate_backend({}, 5000)"
    hold_lock = "SELECT 1 FROM session_totals WHERE user_id = '{}' FOR UPDATE"

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, postgres: Postgres) -> Iterator[PostgresStore]:
        with postgres.database() as url:
            store = PostgresStore(url)
            yield store
            store.close()

    @pytest.fixture
    def server(self, postgres: Postgres) -> Postgres:
        return postgres

    @pytest.fixture
    def private(self, private_postgres: PrivatePostgres) -> PrivatePostgres:
        return private_postgres

    def sessions(self, server: Postgres, url: str) -> list[int]:
        found = server.execute(
            "SELECT pid FROM pg_stat_activity "
            f"WHERE datname = '{name_of(url)}' AND application_name = 'pywrapai'"
        )
        return [pid for (pid,) in found]

    def lock_conversations(self, server: Postgres, url: str) -> Any:
        connection = psycopg2.connect(url)
        connection.cursor().execute("LOCK TABLE conversations")
        return connection

    def rival(self, server: Postgres, url: str) -> Any:
        connection = psycopg2.connect(url)
        connection.cursor().execute("SET deadlock_timeout = '60s'")  # so it is not who looks
        return connection

    def wait_until_blocked(self, server: Postgres, url: str) -> None:
        waiting = (
            "SELECT 1 FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        wait_until(lambda: bool(server.execute(waiting, url)))


class TestPostgresWithOddSettings(OddSettingsContract):
    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, postgres: Postgres) -> Iterator[PostgresStore]:
        with postgres.database("TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'") as url:
            for setting in ODD:
                postgres.execute(f"ALTER DATABASE {name_of(url)} {setting}")
            assert postgres.execute("SHOW timezone", url) == [("America/New_York",)]
            store = PostgresStore(url)
            yield store
            store.close()


def name_of(url: str) -> str:
    return urlsplit(url).path[1:]


def with_options(url: str, **options: str) -> str:
    parts = urlsplit(url)
    return parts._replace(query="&".join(filter(None, [parts.query, urlencode(options)]))).geturl()


def test_a_database_that_lacks_characters_is_refused(postgres: Postgres) -> None:
    with postgres.database("TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'") as url:
        with pytest.raises(StoreError, match=r"encoded in LATIN1.* ENCODING 'UTF8'"):
            PostgresStore(url)

        assert postgres.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", url) == []


def test_the_parameters_of_the_url_are_used(postgres: Postgres, url: str) -> None:
    postgres.execute("CREATE SCHEMA log", url)
    store = PostgresStore(
        with_options(url, application_name="billing", options="-c search_path=log")
    )
    save_turn(store, "q")

    sessions = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'billing'"
    assert postgres.execute(sessions, url) == [(1,)]
    assert postgres.execute("SELECT count(*) FROM log.conversations", url) == [(2,)]
    store.close()


def test_a_server_that_only_reads_may_be_one_that_writes_later(url: str) -> None:
    PostgresStore(url).close()
    store = PostgresStore(with_options(url, options="-c default_transaction_read_only=on"))

    with pytest.raises(StoreError, match=r"read-only.*connect to the primary") as caught:
        save_turn(store, "q")

    assert caught.value.retryable
    assert texts(store) == []
    store.close()


def test_a_lock_that_somebody_keeps_is_not_waited_for_without_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_hurry = postgres_module._SET_SESSION.replace("'5s'", "'50ms'")
    monkeypatch.setattr(postgres_module, "_SET_SESSION", in_a_hurry)
    store = PostgresStore(url)
    save_turn(store, "q0")
    somebody = psycopg2.connect(url)
    somebody.cursor().execute("LOCK TABLE conversations")

    for use in (lambda: save_turn(store, "q1"), lambda: texts(store)):
        with pytest.raises(StoreError, match="another session holds a lock") as caught:
            use()
        assert caught.value.retryable

    somebody.close()
    assert texts(store) == ["q0", "re: q0"]
    store.close()


def test_a_statement_that_takes_too_long_is_ended(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_hurry = postgres_module._SET_SESSION.replace("'60s'", "'50ms'")
    monkeypatch.setattr(postgres_module, "_SET_SESSION", in_a_hurry)
    store = PostgresStore(url)
    somebody = psycopg2.connect(url)
    somebody.cursor().execute("LOCK TABLE conversations")

    with pytest.raises(StoreError, match="took too long") as caught:
        texts(store)

    assert caught.value.retryable
    somebody.close()
    store.close()


def test_what_is_sent_as_one_is_kept_as_one(postgres: Postgres, url: str) -> None:
    store = PostgresStore(url)
    refusal = "ALTER TABLE conversations ADD CONSTRAINT short CHECK (length(content) < 20)"
    postgres.execute(refusal, url)

    def write(last: str) -> None:
        with store.transaction():
            for i in range(30):
                save_turn(store, f"q{i}")
            save_turn(store, last)

    with pytest.raises(StoreError, match="short"):
        write("q" * 20)
    assert store.get_overview()["calls"] == 0

    write("q")
    assert store.get_overview()["calls"] == 31
    assert len(texts(store, max_turns=None)) == 62
    store.close()


def test_processes_that_wait_for_the_schema_are_not_timed_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_hurry = postgres_module._SET_SESSION.replace("'5s'", "'50ms'").replace("'60s'", "'50ms'")
    monkeypatch.setattr(postgres_module, "_SET_SESSION", in_a_hurry)
    somebody = psycopg2.connect(url)
    somebody.cursor().execute("SELECT pg_advisory_lock(%s)", [postgres_module._SCHEMA_LOCK])

    with ThreadPoolExecutor(1) as pool:
        store = pool.submit(PostgresStore, url)
        with pytest.raises(TimeoutError):
            store.result(0.5)
        somebody.close()
        store.result(30).close()
