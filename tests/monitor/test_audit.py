"""The audit log: one contract on the three databases, and what it must never hold."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text

from pywrapai import LLM, TokenUsage, __version__
from pywrapai.testing import StubProvider
from pywrapai.tokens import pricing
from pywrapai_graph.workflows import (
    Actor,
    LLMClient,
    ModuleMeta,
    Reason,
    WorkflowResult,
    triage,
)
from pywrapai_graph.workflows.triage import TriageOutput, TriageRequest
from pywrapai_monitor.audit import AuditLog, AuditRow
from pywrapai_monitor.db import MySQLStore, PostgresStore, SQLiteStore, StoreError
from tests.mariadb import MariaDB, mariadb  # noqa: F401
from tests.postgres import Postgres

# ruff: noqa: F811

ALICE = Actor(user_id="alice", tenant_id="acme", role="operator")
BOB = Actor(user_id="bob", tenant_id="globex", role="service")
OUTPUT = TriageOutput(
    category="outage", priority="P1", suggested_owner="noc", confidence=1.0, rationale="All down."
)
AT = datetime(2026, 12, 1, 10, 30, 0, 123456, tzinfo=UTC)


def result(request_id: str = "r1", *, validated: bool = True, **known: Any) -> WorkflowResult[Any]:
    meta = {
        "module_name": "workflows.triage",
        "module_version": "1.4.2",
        "request_id": request_id,
        "started_at": AT,
        "finished_at": AT,
        "model_id": "qwen3-4b",
        "usage": TokenUsage(120, 30),
        "latency_ms": 1500,
        "cost_usd": 0.00125,
        "model_request_ids": ("chatcmpl-1", "chatcmpl-2"),
        "attempts": 2,
        **known,
    }
    reasons = (
        ()
        if validated
        else (
            Reason(rule="schema", message="category: 'Anna Secret' is no category"),
            Reason(rule="schema", message="priority: missing"),
            Reason(rule="containment", message="'Anna Secret' is not in the source"),
        )
    )
    return WorkflowResult[TriageOutput](
        output=OUTPUT if validated else None,
        meta=ModuleMeta(**meta),
        validated=validated,
        reasons=reasons,
    )


class AuditContract:
    """Give a fixture `store` with an empty database."""

    @pytest.fixture
    def audit(self, store: Any) -> AuditLog:
        return AuditLog(store)

    def test_a_row_holds_who_what_with_which_versions_and_what_it_took(self, audit):
        row_id = audit.log_module_call(ALICE, "r1", result())

        [row] = audit.read("acme")
        assert row == AuditRow(
            id=row_id,
            tenant_id="acme",
            user_id="alice",
            role="operator",
            request_id="r1",
            module_name="workflows.triage",
            module_version="1.4.2",
            package_version=__version__,
            model_id="qwen3-4b",
            input_tokens=120,
            output_tokens=30,
            cost_usd=0.00125,
            latency_ms=1500,
            attempts=2,
            validated=True,
            rules=(),
            model_request_ids=("chatcmpl-1", "chatcmpl-2"),
            started_at="2026-12-01T10:30:00.123456Z",
            finished_at="2026-12-01T10:30:00.123456Z",
            created_at=row.created_at,
        )
        age = datetime.now(UTC) - datetime.fromisoformat(row.created_at)
        assert timedelta(0) <= age < timedelta(minutes=1)

    def test_human_review_is_kept_with_its_rules_and_without_a_word_of_the_answer(self, audit):
        audit.log_module_call(ALICE, "r1", result(validated=False))

        [row] = audit.read("acme")
        assert (row.validated, row.rules) == (False, ("schema", "containment"))
        assert "Anna" not in repr(row)

    def test_a_cost_that_nobody_knows_is_not_passed_off_as_free(self, audit):
        audit.log_module_call(ALICE, "r1", result("r1", cost_usd=None))
        audit.log_module_call(ALICE, "r2", result("r2", cost_usd=0.0))
        audit.log_module_call(ALICE, "r3", result("r3", cost_usd=float("nan")))
        audit.log_module_call(ALICE, "r4", result("r4", cost_usd=float("inf")))

        assert [row.cost_usd for row in audit.read("acme")] == [None, None, 0.0, None]

    def test_figures_that_no_column_holds_are_brought_within_bounds(self, audit):
        odd = {"attempts": 10**9, "latency_ms": 10**30, "usage": TokenUsage(10**30, -5)}
        audit.log_module_call(ALICE, "r1", result(**odd))

        [row] = audit.read("acme")
        assert (row.attempts, row.output_tokens) == (2**15 - 1, 0)

    def test_tenants_never_see_each_others_rows(self, audit):
        tenants = ("acme", "ACME", "acmé", "acme ", "ac%", "a_me")
        for tenant in tenants:
            actor = ALICE.model_copy(update={"tenant_id": tenant})
            audit.log_module_call(actor, "r1", result())
        audit.log_module_call(BOB, "r1", result())

        for tenant in (*tenants, "globex"):
            assert [row.tenant_id for row in audit.read(tenant)] == [tenant]
            assert [row.tenant_id for row in audit.read(tenant, request_id="r1")] == [tenant]
        assert audit.read("") == audit.read("initech") == audit.read("%") == []

    def test_a_page_of_another_tenants_rows_is_out_of_reach_too(self, audit):
        last = audit.log_module_call(BOB, "r1", result())
        mine = audit.log_module_call(ALICE, "r1", result())

        assert [row.id for row in audit.read("acme", before=mine + 1)] == [mine]
        assert audit.read("acme", before=last + 1) == []

    def test_it_is_read_newest_first_page_by_page(self, audit):
        for number in range(7):
            audit.log_module_call(ALICE, f"r{number}", result(f"r{number}"))
            audit.log_module_call(BOB, f"b{number}", result(f"b{number}"))

        pages: list[list[AuditRow]] = []
        while page := audit.read("acme", limit=3, before=pages[-1][-1].id if pages else None):
            pages.append(page)
            if len(pages) == 1:  # what is added meanwhile moves no page
                audit.log_module_call(ALICE, "late", result("late"))

        assert [[row.request_id for row in page] for page in pages] == [
            ["r6", "r5", "r4"],
            ["r3", "r2", "r1"],
            ["r0"],
        ]

    def test_it_can_be_narrowed(self, audit):
        carol = ALICE.model_copy(update={"user_id": "carol"})
        audit.log_module_call(ALICE, "r1", result("r1"))
        audit.log_module_call(carol, "r2", result("r2", module_name="workflows.rag_answer"))
        audit.log_module_call(carol, "r3", result("r3", validated=False))

        def ids(**wanted: Any) -> list[str]:
            return [row.request_id for row in audit.read("acme", **wanted)]

        assert ids(user_id="carol") == ["r3", "r2"]
        assert ids(module_name="workflows.triage") == ["r3", "r1"]
        assert ids(request_id="r2") == ["r2"]
        assert ids(validated=False) == ["r3"]
        assert ids(validated=True, user_id="carol") == ["r2"]

    def test_an_id_with_strange_characters_comes_back(self, audit):
        odd = Actor(user_id="ål\N{PILE OF POO}ice'; --", tenant_id="ten\nant", role="r\N{SNOWMAN}")
        audit.log_module_call(odd, "r'1", result("r'1", model_id="m" * 500))

        [row] = audit.read("ten\nant")
        assert (row.user_id, row.role, row.request_id) == (odd.user_id, odd.role, "r'1")
        assert row.model_id.startswith("mmm")

    @pytest.mark.parametrize(
        ("odd", "kept"), [("a\x00", "a\N{SYMBOL FOR NULL}"), ("a\ud83d", "a\\ud83d")]
    )
    def test_an_id_that_would_be_kept_as_somebody_elses_is_refused(self, audit, odd, kept):
        audit.log_module_call(ALICE.model_copy(update={"tenant_id": kept}), "r1", result())

        for field in ("tenant_id", "user_id"):
            with pytest.raises(ValueError, match=f"{field} is 'a"):
                audit.log_module_call(ALICE.model_copy(update={field: odd}), "r1", result())
        with pytest.raises(ValueError, match="tenant_id is 'a"):
            audit.read(odd)
        with pytest.raises(ValueError, match="tenant_id is 'a"):
            audit.delete_tenant(odd)
        assert len(audit.read(kept)) == 1

    def test_an_id_that_would_have_to_be_cut_is_refused(self, audit):
        long = ALICE.model_copy(update={"tenant_id": "t" * 192})
        with pytest.raises(ValueError, match="tenant_id has 192 characters"):
            audit.log_module_call(long, "r1", result())

    def test_a_result_of_another_request_is_refused(self, audit):
        with pytest.raises(ValueError, match="is of request 'r1', not of 'r2'"):
            audit.log_module_call(ALICE, "r2", result("r1"))
        assert audit.read("acme") == []

    def test_a_page_has_a_size(self, audit):
        for limit in (0, 1001, True, 1.5, None):
            with pytest.raises(ValueError, match="expected 1 to 1000"):
                audit.read("acme", limit=limit)

    def test_a_page_begins_before_any_number(self, audit):
        audit.log_module_call(ALICE, "r1", result())

        assert len(audit.read("acme", before=10**30)) == 1
        assert audit.read("acme", before=0) == audit.read("acme", before=-(10**30)) == []
        for before in ("1", 1.5, True):
            with pytest.raises(ValueError, match="expected the id of a row"):
                audit.read("acme", before=before)

    def test_a_user_or_a_tenant_is_deleted_and_nobody_else(self, audit):
        carol = ALICE.model_copy(update={"user_id": "carol"})
        alice_at_globex = BOB.model_copy(update={"user_id": "alice"})
        for actor in (ALICE, ALICE, carol, BOB, alice_at_globex):
            audit.log_module_call(actor, "r1", result())

        assert audit.delete_user("acme", "alice") == 2
        assert [row.user_id for row in audit.read("acme")] == ["carol"]
        assert [row.user_id for row in audit.read("globex")] == ["alice", "bob"]
        assert audit.delete_tenant("globex") == 2
        assert audit.delete_tenant("globex") == 0
        assert audit.read("globex") == []
        assert [row.user_id for row in audit.read("acme")] == ["carol"]

    def test_many_rows_are_deleted_some_at_a_time(self, audit, store):
        with store.transaction():
            for _ in range(1100):
                audit.log_module_call(ALICE, "r1", result())
            audit.log_module_call(BOB, "r1", result())

        assert audit.delete_tenant("acme") == 1100
        assert len(audit.read("globex")) == 1

    def test_what_is_old_is_purged(self, audit, store):
        audit.log_module_call(ALICE, "old", result("old"))
        with store._begin() as conn:
            conn.execute(text("UPDATE audit_log SET created_at = created_at - 172800000000"))
        audit.log_module_call(ALICE, "new", result("new"))

        assert audit.purge_before(3) == audit.purge_before(10**30) == 0
        assert audit.purge_before(1) == 1
        assert [row.request_id for row in audit.read("acme")] == ["new"]
        for days in (0, -1, 1.5, True):
            with pytest.raises(ValueError, match="days"):
                audit.purge_before(days)

    def test_a_second_log_on_the_same_database_finds_the_rows(self, audit, store):
        audit.log_module_call(ALICE, "r1", result())

        assert len(AuditLog(store).read("acme")) == 1

    def test_threads_lose_no_row(self, audit):
        with ThreadPoolExecutor(4) as pool:
            ids = list(
                pool.map(
                    lambda n: audit.log_module_call(ALICE, f"r{n}", result(f"r{n}")), range(40)
                )
            )

        rows = audit.read("acme")
        assert len(set(ids)) == len(rows) == 40
        assert {row.id for row in rows} == set(ids)

    def test_several_may_make_the_table_at_once(self, store):
        with ThreadPoolExecutor(4) as pool:
            logs = list(pool.map(lambda _: AuditLog(store), range(4)))

        logs[0].log_module_call(ALICE, "r1", result())
        assert [len(log.read("acme")) for log in logs] == [1, 1, 1, 1]
        with store._connect() as conn:
            names = {index["name"] for index in inspect(conn).get_indexes("audit_log")}
        assert {"ix_audit_log_tenant", "ix_audit_log_request"} <= names

    def test_a_row_joins_the_transaction_that_is_open(self, audit, store):
        def given_up() -> None:
            with store.transaction():
                audit.log_module_call(ALICE, "r1", result())
                assert len(audit.read("acme")) == 1
                raise RuntimeError("given up")

        with pytest.raises(RuntimeError, match="given up"):
            given_up()
        assert audit.read("acme") == []

    def test_a_table_of_somebody_else_is_left_alone(self, store):
        with store._begin() as conn:
            conn.execute(text("CREATE TABLE audit_log (id INTEGER, what VARCHAR(20))"))

        with pytest.raises(StoreError, match="audit_log that this pywrapai did not make"):
            AuditLog(store)


class TestSQLite(AuditContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SQLiteStore]:
        store = SQLiteStore(tmp_path / "audit.db")
        yield store
        store.close()


class TestSQLiteInMemory(AuditContract):
    @pytest.fixture
    def store(self) -> Iterator[SQLiteStore]:
        store = SQLiteStore(":memory:")
        yield store
        store.close()


class ServerContract(AuditContract):
    """Give a fixture `drop` too, which ends the store's connections."""

    def test_a_connection_that_drops_costs_one_row_at_most_and_not_in_silence(self, audit, drop):
        audit.log_module_call(ALICE, "r1", result("r1"))
        kept, lost = ["r1"], []
        drop()

        for request_id in ("r2", "r3"):
            try:
                audit.log_module_call(ALICE, request_id, result(request_id))
            except StoreError as error:
                lost.append(error)
            else:
                kept.insert(0, request_id)

        assert "r3" in kept
        assert all(error.retryable for error in lost)
        assert [row.request_id for row in audit.read("acme")] == kept


class TestPostgres(ServerContract):
    @pytest.fixture
    def drop(self, postgres: Postgres, store: PostgresStore) -> Callable[[], object]:
        others = "FROM pg_stat_activity WHERE datname = current_database()"
        mine = f"{others} AND pid <> pg_backend_pid()"
        url = store._engine.url.render_as_string(hide_password=False)
        plain = url.replace("+psycopg2", "")
        return lambda: postgres.execute(f"SELECT pg_terminate_backend(pid, 5000) {mine}", plain)

    @pytest.fixture
    def store(self, postgres: Postgres) -> Iterator[PostgresStore]:
        with postgres.database() as url:
            store = PostgresStore(url)
            yield store
            store.close()


class TestMariaDB(ServerContract):
    @pytest.fixture
    def drop(self, mariadb: MariaDB, store: MySQLStore) -> Callable[[], object]:
        name = store._engine.url.database
        mine = f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"
        return lambda: [mariadb.execute(f"KILL {number}") for (number,) in mariadb.execute(mine)]

    @pytest.fixture
    def store(self, mariadb: MariaDB) -> Iterator[MySQLStore]:
        with mariadb.database() as url:
            store = MySQLStore(url)
            yield store
            store.close()


def test_a_database_with_a_log_is_opened_by_a_store_as_before(tmp_path: Path):
    path = tmp_path / "audit.db"
    with_log = SQLiteStore(path)
    AuditLog(with_log).log_module_call(ALICE, "r1", result())
    with_log.close()

    again = SQLiteStore(path)
    assert again.get_overview()["calls"] == 0
    assert [asdict(row)["request_id"] for row in AuditLog(again).read("acme")] == ["r1"]
    again.close()


def test_deleting_a_user_leaves_the_log_as_it_is(tmp_path: Path):
    store = SQLiteStore(tmp_path / "audit.db")
    audit = AuditLog(store)
    audit.log_module_call(ALICE, "r1", result())

    store.delete_user("alice")

    assert len(audit.read("acme")) == 1
    store.close()


def test_a_store_without_sql_is_told_what_is_needed():
    with pytest.raises(TypeError, match="SQLiteStore, PostgresStore or MySQLStore"):
        AuditLog(object())  # type: ignore[arg-type]


def test_a_database_that_cannot_be_written_is_a_store_error(tmp_path: Path):
    store = SQLiteStore(tmp_path / "audit.db")
    audit = AuditLog(store)
    with store._begin() as conn:
        conn.execute(text("DROP TABLE audit_log"))

    with pytest.raises(StoreError, match="audit_log"):
        audit.log_module_call(ALICE, "r1", result())
    store.close()


def test_a_model_without_a_price_is_not_free_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pricing, "_warned", {})  # of which only so many are told

    class Foreign(StubProvider):
        name = "foreign"

    said = OUTPUT.model_dump_json()
    client = LLMClient(LLM(Foreign([said], model="who-knows")))
    complaint = TriageRequest(subject="s", body="b", customer_tier="gold")
    with pytest.warns(UserWarning, match="no price"):
        answered = triage.run(complaint, actor=ALICE, request_id="r1", client=client)
    store = SQLiteStore(tmp_path / "audit.db")
    audit = AuditLog(store)
    audit.log_module_call(ALICE, "r1", answered)

    [row] = audit.read("acme")
    assert (row.model_id, row.cost_usd, row.validated) == ("who-knows", None, True)
    store.close()


def test_importing_the_module_imports_no_database():
    code = "import sys, pywrapai_monitor.audit; print('sqlalchemy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "False\n"
