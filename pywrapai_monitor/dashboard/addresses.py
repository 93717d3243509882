"""Addresses of pages: they keep the time and the time zone that the reader has chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

from flask import request

from pywrapai_monitor.dashboard.params import FRAME
from pywrapai_monitor.dashboard.views import BY_NAME

KEPT = tuple(param.name for param in FRAME)
_OTHERS = {
    "body": "/body",
    "health": "/health",
    "login": "/login",
    "logout": "/logout",
    "openapi": "/api/openapi.json",
}


def kept() -> dict[str, str]:
    """What of the present address stays in all."""
    return {name: value for name in KEPT if (value := request.args.get(name))}


def url(page: str, /, **parameters: Any) -> str:
    """Of a page."""
    if page in _OTHERS:
        return address(_OTHERS[page], parameters)
    return address(BY_NAME[page].path, _changed(kept(), parameters))


def url_with(**changes: Any) -> str:
    """The present address with other parameters; None takes one away, and a page of a list that is
    another list begins anew.
    """
    now = {name: value for name, value in request.args.items() if value and name != "cursor"}
    return address(request.path, _changed(now, changes))


def json_url(name: str) -> str:
    """Of a page's JSON twin."""
    now = {name: value for name, value in request.args.items() if value}
    return address(f"/api/views/{name}", now)


def body_url(table: str, id: int, name: str) -> str:
    """Of a whole text."""
    return url("body", table=table, id=id, name=name)


def export_url(table: str, format: str, /, **filters: Any) -> str:
    """Of a file with the rows of a table in the present time."""
    return address(f"/api/export/{table}.{format}", _changed(kept(), filters))


def address(path: str, parameters: dict[str, Any]) -> str:
    """A path below the root of the app, with its query."""
    query = urlencode(
        [(name, _text(value)) for name, value in parameters.items() if value is not None],
        quote_via=quote,
        errors="replace",
    )
    return f"{request.script_root}{path}{'?' if query else ''}{query}"


def _changed(now: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return _without(now, _displaced(changes)) | changes


def _displaced(changes: dict[str, Any]) -> set[str]:
    """A range and dates exclude each other."""
    names: set[str] = set()
    if changes.get("range"):
        names |= {"from", "to"}
    if changes.get("from") or changes.get("to"):
        names.add("range")
    return names


def _without(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _text(value: Any) -> str:
    return "1" if value is True else str(value)


def is_local(path: str) -> bool:
    """Whether a browser that is sent there stays on this site."""
    return (
        path.startswith("/")
        and not path.startswith("//")
        and "\\" not in path
        and path.isprintable()
    )
