"""The schema, one for all databases: six tables of rows, six of running totals, one version.

The six tables hold what happened. The `*_totals` tables hold nothing that cannot be computed from
them; they are kept in the same transaction as the rows, so that a dashboard over a million calls
reads hundreds of rows and not a million.

- Times are BIGINT microseconds since 1970 in UTC. They compare alike on every database, and no
  session time zone, driver or column type can shift them.
- Money is BIGINT in units of 1e-10 USD (`COST_UNITS` to the dollar). Prices per million tokens
  have about four decimals, so a call is a whole number of these; integer sums are exact and the
  same in any order, where float sums are neither; and 64 bits reach 900 million dollars.
- Ids are at most `KEY_LENGTH` characters, which utf8mb4 indexes on MySQL allow, and of an exact
  collation there: the usual ones hold alice, ALICE, alicé and "alice " to be one user.
- The long columns of a row come last: SQLite then reads the short ones without the pages behind.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

SCHEMA_VERSION = 5  # a layout that differs gets the next number, and a step in migrations.py
KEY_LENGTH = 191
COST_UNITS = 10**10
MYSQL_EXACT = "utf8mb4_0900_bin"  # since 8.0.17
MARIADB_EXACT = "utf8mb4_nopad_bin"


def _varchar(length: int) -> TypeEngine[str]:
    """Compared exactly, trailing spaces included; the two name that collation differently."""
    return (
        String(length)
        .with_variant(mysql.VARCHAR(length, charset="utf8mb4", collation=MYSQL_EXACT), "mysql")
        .with_variant(mysql.VARCHAR(length, charset="utf8mb4", collation=MARIADB_EXACT), "mariadb")
    )


KEY = _varchar(KEY_LENGTH)
WORD = _varchar(32)
BODY = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4"), "mysql", "mariadb")
ROW_ID = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself there

NOT_OK = "status <> 'ok'"
PROMPTED = "prompt_name IS NOT NULL"

metadata = MetaData()


def _id() -> Column[int]:
    return Column("id", ROW_ID, primary_key=True, autoincrement=True)


def _key(name: str, *, primary_key: bool = False) -> Column[str]:
    return Column(name, KEY, primary_key=primary_key, nullable=False)


def _whole(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _bucket() -> Column[int]:
    """One of buckets.py."""
    return Column("bucket", BigInteger, primary_key=True, autoincrement=False)


def _lane() -> Column[int]:
    """One hot row would queue up all writers of a server; it may spread them over several lanes."""
    return Column("lane", SmallInteger, primary_key=True, autoincrement=False)


def _partial_index(name: str, *columns: str, where: str) -> Index:
    """Of those rows alone where the database can; a query must say the same condition."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def _table(name: str, *parts: SchemaItem, by_key: bool = False) -> Table:
    """`by_key` lays the rows out in the order of their key, as InnoDB always does."""
    return Table(
        name,
        metadata,
        *parts,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mariadb_engine="InnoDB",
        mariadb_charset="utf8mb4",
        sqlite_with_rowid=not by_key,
    )


conversations = _table(
    "conversations",
    _id(),
    _key("user_id"),
    _key("session_id"),
    Column("role", WORD, nullable=False),
    Column("status", WORD, nullable=False),
    _whole("created_at"),
    Column("history_count", Integer),
    Column("call_id", KEY),
    Column("content", BODY, nullable=False),
    Column("rag_context", BODY),
    Column("system_prompt", BODY),
    # With the role at its end, the n-th newest question of a session is found in the index alone.
    Index("ix_conversations_session", "user_id", "session_id", "id", "role"),
    Index("ix_conversations_time", "created_at"),
)

token_records = _table(
    "token_records",
    _id(),
    _key("user_id"),
    _key("session_id"),
    _whole("created_at"),
    _key("model"),
    _key("provider"),
    Column("kind", WORD, nullable=False),
    Column("status", WORD, nullable=False),
    _whole("input_tokens"),
    _whole("output_tokens"),
    _whole("cache_read_tokens"),
    _whole("cache_write_tokens"),
    _whole("reasoning_tokens"),
    _whole("cost"),
    Column("priced", Boolean, nullable=False),
    Column("cached", Boolean, nullable=False),
    Column("duration_ms", Double, nullable=False),
    Column("ttft_ms", Double),
    Column("error_type", KEY),
    Column("request_id", KEY),
    Column("prompt_name", KEY),
    Column("prompt_version", KEY),
    Column("call_id", KEY),
    Column("finish_reason", WORD),
    Column("tags", BODY),
    Column("metadata", BODY),
    Column("error_message", BODY),
    Column("partial", BODY),
    Index("uq_token_records_call", "call_id", unique=True),
    Index("ix_token_records_session", "user_id", "session_id", "created_at", "id"),
    Index("ix_token_records_user", "user_id", "created_at", "id"),
    Index("ix_token_records_time", "created_at", "id"),
    _partial_index("ix_token_records_status", "status", "created_at", "id", where=NOT_OK),
    _partial_index(
        "ix_token_records_prompt",
        "prompt_name",
        "prompt_version",
        "created_at",
        "id",
        "kind",
        "cached",
        "duration_ms",
        where=PROMPTED,
    ),
)

tool_calls = _table(
    "tool_calls",
    _id(),
    _key("user_id"),
    _key("session_id"),
    Column("turn_num", Integer, nullable=False),
    _key("tool_name"),
    _key("call_id"),
    Column("status", WORD, nullable=False),
    _whole("created_at"),
    Column("duration_ms", Double),
    Column("model_call_id", KEY),  # ours; `call_id` is what the model called it
    Column("arguments", BODY, nullable=False),
    Column("result", BODY),
    Column("error", BODY),
    Index("ix_tool_calls_session", "user_id", "session_id", "id"),
    Index("ix_tool_calls_time", "created_at"),
    Index("ix_tool_calls_model_call", "model_call_id", "id"),
)

feedback = _table(
    "feedback",
    _id(),
    _key("call_id"),
    Column("score", Double, nullable=False),
    _whole("created_at"),
    _whole("updated_at"),
    Column("comment", BODY),
    Index("uq_feedback_call", "call_id", unique=True),
    Index("ix_feedback_time", "created_at"),
)

system_prompts = _table(
    "system_prompts",
    _id(),
    _key("name"),
    _key("version"),
    Column("is_active", Boolean, nullable=False),
    _whole("created_at"),
    _whole("updated_at"),
    # Since when, of those that were active one after another; a roll back takes the last one's.
    Column("activated_at", BigInteger),
    Column("text", BODY, nullable=False),
    UniqueConstraint("name", "version", name="uq_system_prompts"),
)

user_settings = _table(
    "user_settings",
    _id(),
    _key("user_id"),
    _key("prompt_name"),
    _key("prompt_version"),
    _whole("updated_at"),
    UniqueConstraint("user_id", "prompt_name", name="uq_user_settings"),
    Index("ix_user_settings_prompt", "prompt_name", "user_id"),
)

usage_totals = _table(
    "usage_totals",
    _bucket(),
    _lane(),
    _key("provider", primary_key=True),
    _key("model", primary_key=True),
    Column("kind", WORD, primary_key=True),
    _whole("calls"),
    _whole("errors"),
    _whole("unpriced"),
    _whole("cached"),
    _whole("input_tokens"),
    _whole("output_tokens"),
    _whole("cache_read_tokens"),
    _whole("cache_write_tokens"),
    _whole("reasoning_tokens"),
    _whole("cost"),
    Column("duration_ms", Double, nullable=False),
    Column("cached_ms", Double, nullable=False),  # of it
    by_key=True,
)

latency_totals = _table(
    "latency_totals",
    _bucket(),
    _lane(),
    Column("bin", SmallInteger, primary_key=True, autoincrement=False),  # of latency.py
    _whole("calls"),
    by_key=True,
)

# Apart from usage, because no database takes a key of four names.
prompt_totals = _table(
    "prompt_totals",
    _bucket(),
    _lane(),
    _key("prompt_name", primary_key=True),
    _key("prompt_version", primary_key=True),
    _whole("calls"),
    _whole("errors"),
    _whole("cost"),
    _whole("timed"),
    Column("duration_ms", Double, nullable=False),
    by_key=True,
)

user_totals = _table(
    "user_totals",
    _bucket(),
    _key("user_id", primary_key=True),
    _whole("records"),
    _whole("calls"),
    _whole("errors"),
    _whole("total_tokens"),
    _whole("cost"),
    by_key=True,
)

session_totals = _table(
    "session_totals",
    _key("user_id", primary_key=True),
    _key("session_id", primary_key=True),
    _whole("row_count"),
    _whole("calls"),
    _whole("errors"),
    _whole("turns"),
    _whole("total_tokens"),
    _whole("cost"),
    _whole("first_at"),
    _whole("last_at"),
    Index("ix_session_totals_time", "last_at", "user_id", "session_id", "first_at", "row_count"),
    by_key=True,
)

# Of a user of all time, and of a time of all users, who are then "".
tool_totals = _table(
    "tool_totals",
    _bucket(),
    _lane(),
    _key("user_id", primary_key=True),
    _key("tool_name", primary_key=True),
    _whole("calls"),
    _whole("errors"),
    _whole("timed"),
    Column("duration_ms", Double, nullable=False),
    by_key=True,
)

schema_info = _table(
    "schema_info",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
