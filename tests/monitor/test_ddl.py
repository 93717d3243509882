"""The tables as each database gets them, without a server: types, collations, widths of keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import Column, Dialect, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.dialects.mysql import mariadb
from sqlalchemy.schema import CreateIndex, CreateTable

from pywrapai_monitor.db.tables import KEY_LENGTH, metadata

DIALECTS: dict[str, Dialect] = {
    "sqlite": sqlite.dialect(),
    "postgresql": postgresql.dialect(),
    "mysql": mysql.dialect(),
    "mariadb": mariadb.MariaDBDialect(),
}
EXACT = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}
TABLES = metadata.sorted_tables


def columns() -> Iterator[Column[object]]:
    for table in TABLES:
        yield from table.columns


def ddl(column: Column[object], dialect: str) -> str:
    return column.type.compile(dialect=DIALECTS[dialect])


def python_type(column: Column[object]) -> type:
    return column.type.python_type


def keys() -> Iterator[tuple[str, list[Column[object]]]]:
    for table in TABLES:
        yield f"{table.name}'s primary key", list(table.primary_key.columns)
        for index in table.indexes:
            yield str(index.name), list(index.columns)
        for constraint in table.constraints:
            yield f"{table.name}: {constraint.name}", list(getattr(constraint, "columns", []))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_table_and_index_compiles(dialect: str, table: Table) -> None:
    made = str(CreateTable(table).compile(dialect=DIALECTS[dialect]))

    assert f"CREATE TABLE {table.name}" in made
    for index in table.indexes:
        assert str(index.name) in str(CreateIndex(index).compile(dialect=DIALECTS[dialect]))


@pytest.mark.parametrize("dialect", ["mysql", "mariadb"])
def test_mysql_keeps_every_text_whole_and_every_character(dialect: str) -> None:
    for column in columns():
        if python_type(column) is str:
            made = ddl(column, dialect)
            assert re.match(r"LONGTEXT |VARCHAR\(\d+\) ", made), f"{column}: {made}"
            assert "CHARACTER SET utf8mb4" in made
    for table in TABLES:
        made = str(CreateTable(table).compile(dialect=DIALECTS[dialect]))
        assert re.search(r"CHARSET=utf8mb4", made)
        assert re.search(r"ENGINE=InnoDB", made)


@pytest.mark.parametrize("dialect", ["mysql", "mariadb"])
def test_mysql_compares_ids_exactly(dialect: str) -> None:
    for name, key in keys():
        for column in key:
            if python_type(column) is str:
                assert f"COLLATE {EXACT[dialect]}" in ddl(column, dialect), name


def test_an_id_has_room_on_every_database() -> None:
    for dialect in DIALECTS:
        assert ddl(metadata.tables["conversations"].c.user_id, dialect).startswith(
            f"VARCHAR({KEY_LENGTH})"
        )


def test_every_key_is_within_what_indexes_allow() -> None:
    for name, key in keys():
        widest = sum(4 * column.type.length if python_type(column) is str else 8 for column in key)
        assert widest <= 2704 - 16, name  # PostgreSQL's; InnoDB has 3072


@pytest.mark.parametrize(
    ("dialect", "whole", "row_id"),
    [
        ("sqlite", "BIGINT", "INTEGER"),
        ("postgresql", "BIGINT", "BIGSERIAL"),
        ("mysql", "BIGINT", "BIGINT NOT NULL AUTO_INCREMENT"),
        ("mariadb", "BIGINT", "BIGINT NOT NULL AUTO_INCREMENT"),
    ],
)
def test_times_money_and_row_ids_have_64_bits(dialect: str, whole: str, row_id: str) -> None:
    records = metadata.tables["token_records"]
    made = str(CreateTable(records).compile(dialect=DIALECTS[dialect]))

    assert f"created_at {whole} NOT NULL" in made
    assert f"cost {whole} NOT NULL" in made
    assert f"id {row_id}" in made


@pytest.mark.parametrize("dialect", DIALECTS)
def test_times_are_no_type_that_a_session_could_shift(dialect: str) -> None:
    assert not [c for c in columns() if re.search("TIME|DATE", ddl(c, dialect))]


def test_names_are_short_enough_for_every_database() -> None:
    names = [table.name for table in TABLES] + [str(column.name) for column in columns()]
    names += [str(index.name) for table in TABLES for index in table.indexes]

    assert max(map(len, names)) <= 63
