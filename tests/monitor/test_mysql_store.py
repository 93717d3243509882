"""The MySQL store: the contracts, also where the server is set up oddly, and what is its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from pymysql.err import OperationalError

from pywrapai_monitor.db import mysql as mysql_module
from pywrapai_monitor.db import transactions
from pywrapai_monitor.db.base import StoreError
from pywrapai_monitor.db.mysql import MySQLStore
from tests.contracts.server_store import (
    OddSettingsContract,
    ServerStoreContract,
    wait_until,
    whole_story,
)
from tests.contracts.store_rows import call, entry, message, save_turn, texts
from tests.mariadb import MariaDB, mariadb  # noqa: F401
from tests.servers import PrivateMariaDB, private_mariadb  # noqa: F401

# The fixtures are imported by name, which pytest then gives to tests under that name.
# ruff: noqa: F811

ODD = (
    "SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH', "
    "time_zone = '+09:00', tx_isolation = 'SERIALIZABLE', autocommit = 1"
)


@pytest.fixture
def url(mariadb: MariaDB) -> Iterator[str]:
    with mariadb.database() as url:
        yield url


class TestMariaDB(ServerStoreContract):
    scheme = "mysql"
    kill = "KILL {}"
    gone = (OperationalError,)
    hold_lock = "SELECT 1 FROM session_totals WHERE user_id = '{}' FOR UPDATE"

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, mariadb: MariaDB) -> Iterator[MySQLStore]:
        with mariadb.database() as url:
            store = MySQLStore(url)
            yield store
            store.close()

    @pytest.fixture
    def server(self, mariadb: MariaDB) -> MariaDB:
        return mariadb

    @pytest.fixture
    def private(self, private_mariadb: PrivateMariaDB) -> PrivateMariaDB:
        return private_mariadb

    def sessions(self, server: MariaDB, url: str) -> list[int]:
        database = urlsplit(url).path[1:]
        found = server.execute(
            f"SELECT id FROM information_schema.processlist WHERE db = '{database}'"
        )
        return [session for (session,) in found]

    def lock_conversations(self, server: MariaDB, url: str) -> Any:
        connection = server.connect()
        connection.cursor().execute(f"LOCK TABLES {urlsplit(url).path[1:]}.conversations WRITE")
        return connection

    def rival(self, server: MariaDB, url: str) -> Any:
        connection = server.connect(url)
        connection.autocommit(False)
        # The victim is who has written less.
        connection.cursor().executemany(
            "INSERT INTO tool_totals VALUES (-1, 0, %s, 't', 0, 0, 0, 0)",
            [(str(i),) for i in range(200)],
        )
        return connection

    def wait_until_blocked(self, server: MariaDB, url: str) -> None:
        waiting = (
            "SELECT 1 FROM information_schema.processlist p "
            "LEFT JOIN information_schema.innodb_trx ON trx_mysql_thread_id = p.id "
            "WHERE p.db = DATABASE() "
            "AND (trx_state = 'LOCK WAIT' OR p.state = 'Waiting for table metadata lock')"
        )
        # InnoDB does not look again for one who asked less than 0.1 s ago.
        wait_until(lambda: bool(server.execute(waiting, url)), every_s=0.2)


class TestMariaDBWithOddSettings(OddSettingsContract):
    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, mariadb: MariaDB) -> Iterator[MySQLStore]:
        with mariadb.database("CHARACTER SET latin1 COLLATE latin1_general_ci") as url:
            store = MySQLStore(f"{url}?init_command={quote(ODD)}")
            yield store
            store.close()


def test_a_wrong_password_is_told_and_not_repeated(mariadb: MariaDB, url: str) -> None:
    parts = urlsplit(url)
    wrong = parts._replace(netloc=f"root:s3cret@{parts.hostname}:{parts.port}").geturl()

    with pytest.raises(StoreError, match="give the right user and password") as caught:
        MySQLStore(wrong)

    assert caught.value.retryable  # it may be the server's that is about to change
    assert "s3cret" not in whole_story(caught.value)


def test_text_is_whole_whatever_character_set_the_url_names(url: str) -> None:
    store = MySQLStore(f"{url}?charset=latin1")
    save_turn(store, "👩‍👩‍👧 水 é")

    assert texts(store) == ["👩‍👩‍👧 水 é", "re: 👩‍👩‍👧 水 é"]
    store.close()


def test_an_opened_store_keeps_nobody_from_opening_another(mariadb: MariaDB, url: str) -> None:
    store = MySQLStore(url)

    free = f"SELECT IS_FREE_LOCK({mysql_module._LOCK})"
    assert mariadb.execute(free, url) == [(1,)]
    store.close()


def test_a_schema_that_is_locked_for_long_may_be_free_later(
    mariadb: MariaDB, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_module, "_LOCK_WAIT_S", 0.1)
    somebody = mariadb.connect(url)
    somebody.cursor().execute(f"SELECT GET_LOCK({mysql_module._LOCK}, 1)")

    with pytest.raises(StoreError, match="SHOW PROCESSLIST") as caught:
        MySQLStore(url)

    assert caught.value.retryable
    somebody.close()
    MySQLStore(url).close()


def test_a_server_that_only_reads_may_be_one_that_writes_later(url: str) -> None:
    MySQLStore(url).close()
    store = MySQLStore(f"{url}?init_command={quote('SET SESSION TRANSACTION READ ONLY')}")

    with pytest.raises(StoreError, match="READ ONLY") as caught:
        save_turn(store, "q")

    assert caught.value.retryable
    assert texts(store) == []
    store.close()


def test_a_lock_that_somebody_keeps_is_not_waited_for_without_end(
    mariadb: MariaDB, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = mysql_module._SET_SESSION
    in_a_hurry = first.replace("innodb_lock_wait_timeout = 5", "innodb_lock_wait_timeout = 1")
    monkeypatch.setattr(mysql_module, "_SET_SESSION", (in_a_hurry, *others))
    monkeypatch.setattr(transactions, "_PAUSES_S", ())
    store = MySQLStore(url)
    save_turn(store, "q0")
    somebody = mariadb.connect(url)
    somebody.autocommit(False)
    somebody.cursor().execute("SELECT * FROM session_totals FOR UPDATE")

    with pytest.raises(StoreError, match="another session holds a lock") as caught:
        save_turn(store, "q1")

    assert caught.value.retryable
    somebody.close()
    assert texts(store) == ["q0", "re: q0"]
    store.close()


def test_what_no_packet_has_room_for_is_cut_and_the_rest_of_the_row_is_kept(
    private_mariadb: PrivateMariaDB,
) -> None:
    private_mariadb.execute("SET GLOBAL max_allowed_packet = 1048576")
    store = MySQLStore(private_mariadb.url)
    fits, too_long = "水" * 300_000, "it's 水\n" * 500_000

    store.write(
        [
            entry(fits, "c0", cost_usd=0.5),
            entry(too_long, "c1", cost_usd=0.25, partial="p" * 2_000_000),
            entry("q", "c2"),
        ]
    )
    store.save_message(message("user", "short", system_prompt=too_long))

    history = texts(store)
    assert history[0] == fits
    for text in history[2:4]:
        assert text.removeprefix("re: ").startswith(too_long[:100_000])
        assert text.endswith("characters]")
    assert "for 3,500,000 characters]" in history[2]
    assert history[4:] == ["q", "re: q", "short"]
    assert store.get_overview()["cost_usd"] == 0.75
    assert store.get_conversation("alice", "s1")[-1]["content"] == "short"
    assert store.get_session_token_records("alice", "s1")[1]["partial"].startswith("ppp")
    store.close()


def test_ten_megabytes_are_kept_whole_by_a_server_as_it_comes(url: str) -> None:
    text = "x" * 10_000_000
    store = MySQLStore(url)
    store.save_message(message("user", text))
    store.save_token_record(call(error_message=text[:100]))

    assert texts(store) == [text]
    store.close()
