"""The lists of `Analytics`, a page at a time, newest first, each found by an index.

What no index has is looked for among a bounded number of rows; where that ends before the page is
full, the page says how far it came.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Boolean, ColumnElement, Connection, func, literal_column, or_, select

from pywrapai_monitor.db import codec, cursors, rows
from pywrapai_monitor.db.analytics import CallFilter, Page, Span
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.rows import Found
from pywrapai_monitor.db.tables import NOT_OK, PROMPTED, token_records, user_settings

LOOKED_AT = 5_000
"""Rows, for each request."""
_ERROR_CHARACTERS = 300
_NOT_LISTED = {"partial", "metadata", "error_message"}

_record, _setting = token_records.c, user_settings.c

_CALLS = select(
    *(column for column in token_records.columns if column.name not in _NOT_LISTED),
    func.substr(_record.error_message, 1, _ERROR_CHARACTERS).label("error_message"),
).order_by(_record.created_at.desc(), _record.id.desc())
_PLACES = select(_record.created_at, _record.id).order_by(
    _record.created_at.desc(), _record.id.desc()
)


def calls(conn: Connection, wanted: CallFilter, limit: int, cursor: str | None) -> Page:
    """Token records, newest first."""
    indexed = [*_in_time(wanted.span), *_indexed(wanted)]
    if cursor is not None:
        at, row_id = cursors.decode(cursor, int, int)
        indexed += [_record.created_at <= at, or_(_record.created_at < at, _record.id < row_id)]
    end = None
    if others := list(_others(wanted)):
        looked_at = max(LOOKED_AT, limit + 1)
        end = conn.execute(_PLACES.where(*indexed).offset(looked_at - 1).limit(1)).first()
    if end is not None:
        at, row_id = end
        indexed += [_record.created_at >= at, or_(_record.created_at > at, _record.id >= row_id)]
    found = conn.execute(_CALLS.where(*indexed, *others).limit(limit + 1)).mappings().all()
    following = searched_to = None
    if len(found) > limit:
        following = _place(found[limit - 1])
    elif end is not None:
        following, searched_to = cursors.encode(*map(int, end)), codec.iso_time(end[0])
    listed = [_call(row) for row in found[:limit]]
    return Page(rows=_tagged(listed, wanted.tag), next=following, searched_to=searched_to)


def _place(row: Found) -> str:
    return cursors.encode(row["created_at"], row["id"])


def _call(row: Found) -> Row:
    listed = rows.record_from_row({**row, "metadata": None})
    del listed["metadata"]
    return listed


def _tagged(listed: list[Row], tag: str | None) -> list[Row]:
    return listed if tag is None else [row for row in listed if codec.readable(tag) in row["tags"]]


def _in_time(span: Span) -> Iterator[ColumnElement[bool]]:
    if span.since is not None:
        yield _record.created_at >= span.since
    if span.until is not None:
        yield _record.created_at < span.until


def _indexed(wanted: CallFilter) -> Iterator[ColumnElement[bool]]:
    """The conditions that one of the indexes answers in the order of time."""
    if wanted.user_id is not None:
        yield _record.user_id == codec.key("user_id", wanted.user_id)
        if wanted.session_id is not None:
            yield _record.session_id == codec.key("session_id", wanted.session_id)
    elif _is_of_version(wanted):
        yield from _prompt(wanted)
    elif _is_not_ok(wanted):
        yield from _status(wanted)


def _others(wanted: CallFilter) -> Iterator[ColumnElement[bool]]:
    """The conditions that each row is looked at for."""
    of_user = wanted.user_id is not None
    if wanted.session_id is not None and not of_user:
        yield _record.session_id == codec.key("session_id", wanted.session_id)
    if of_user or not _is_of_version(wanted):
        yield from _prompt(wanted)
    if of_user or _is_of_version(wanted) or not _is_not_ok(wanted):
        yield from _status(wanted)
    if wanted.model is not None:
        yield _record.model == codec.label(wanted.model)
    if wanted.kind is not None:
        yield _record.kind == codec.label(wanted.kind, 32)
    if wanted.tag is not None:
        yield _record.tags.contains(codec.to_json(wanted.tag), autoescape=True)
    if wanted.unpriced:
        yield ~_record.priced


def _is_of_version(wanted: CallFilter) -> bool:
    return wanted.prompt_name is not None and wanted.prompt_version is not None


def _is_not_ok(wanted: CallFilter) -> bool:
    return wanted.status is not None and wanted.status != "ok"


def _prompt(wanted: CallFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.prompt_name is not None:
        yield _record.prompt_name == codec.label(wanted.prompt_name)
        yield literal_column(PROMPTED, Boolean)
    if wanted.prompt_version is not None:
        yield _record.prompt_version == codec.label(wanted.prompt_version)


def _status(wanted: CallFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.status is not None:
        yield _record.status == codec.label(wanted.status, 32)
    if _is_not_ok(wanted):
        yield literal_column(NOT_OK, Boolean)


def pins(conn: Connection, name: str, limit: int, cursor: str | None) -> Page:
    """Users who are pinned to a version of a prompt, by their ids."""
    chosen = (
        select(_setting.user_id, _setting.prompt_version.label("version"), _setting.updated_at)
        .where(_setting.prompt_name == name)
        .order_by(_setting.user_id)
        .limit(limit + 1)
    )
    if cursor is not None:
        (user_id,) = cursors.decode(cursor, str)
        chosen = chosen.where(_setting.user_id > user_id)
    found = conn.execute(chosen).mappings().all()
    following = cursors.encode(found[limit - 1]["user_id"]) if len(found) > limit else None
    listed = [{**row, "updated_at": codec.iso_time(row["updated_at"])} for row in found[:limit]]
    return Page(rows=listed, next=following)
