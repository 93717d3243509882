"""The JSON routes: read the parameters, ask the store, dump the answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, request

from pywrapai_monitor.db.base import BaseStore, Row

MAX_DAYS = 366
MAX_LIMIT = 1000
MAX_SAFE_INTEGER = 2**53 - 1
"""Beyond it a JavaScript number is rounded, so the JSON carries a string."""


class BadParameterError(ValueError):
    """A query parameter is missing or not what it has to be."""


def blueprint(store: BaseStore, tz: str) -> Blueprint:
    """The routes under /api over one store; days begin at midnight in `tz`."""
    routes = Blueprint("api", __name__, url_prefix="/api")
    reads = _Reads(store, tz)
    for path, read in {
        "overview": reads.overview,
        "today": reads.today,
        "cost-over-time": reads.cost_over_time,
        "model-usage": reads.model_usage,
        "users": reads.users,
        "sessions": reads.sessions,
        "recent-queries": reads.recent_queries,
        "token-records": reads.token_records,
    }.items():
        routes.add_url_rule(f"/{path}", path, _view(read))
    return routes


Args = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Reads:
    """What each route asks of the store, given its query parameters."""

    store: BaseStore
    tz: str

    def overview(self, _: Args) -> Row:
        return self.store.get_overview()

    def today(self, _: Args) -> Row:
        return self.store.get_today(self.tz)

    def cost_over_time(self, args: Args) -> list[Row]:
        return self.store.get_cost_over_time(whole(args, "days", 7, MAX_DAYS), self.tz)

    def model_usage(self, _: Args) -> list[Row]:
        return self.store.get_model_usage()

    def users(self, _: Args) -> list[Row]:
        return self.store.get_users()

    def sessions(self, args: Args) -> list[Row]:
        user_id = required(args, "user_id") if "user_id" in args else None
        return self.store.get_sessions(user_id)

    def recent_queries(self, args: Args) -> list[Row]:
        rows = self.store.get_recent_queries(whole(args, "limit", 20, MAX_LIMIT))
        return [_without_body(row) for row in rows]

    def token_records(self, args: Args) -> list[Row]:
        rows = self.store.get_session_token_records(
            required(args, "user_id"), required(args, "session_id")
        )
        return [_without_body(row) for row in rows]


def _view(read: Callable[[Args], Any]) -> Callable[[], Response]:
    return lambda: json_response(read(request.args))


def _without_body(row: Row) -> Row:
    """A list never ships what a model wrote."""
    return {name: value for name, value in row.items() if name != "partial"}


def whole(args: Args, name: str, default: int, highest: int) -> int:
    """A whole number from 1 to `highest`, or the default where the parameter is not given."""
    given = args.get(name)
    if given is None:
        return default
    if re.fullmatch("[0-9]{1,9}", given) and 1 <= int(given) <= highest:
        return int(given)
    raise BadParameterError(
        f"{name} must be a whole number from 1 to {highest}, not {_excerpt(given)}"
    )


def required(args: Args, name: str) -> str:
    """A parameter that must be there and not be empty."""
    if value := args.get(name):
        return value
    raise BadParameterError(f"{name} must be given and not be empty: ?{name}=...")


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def json_response(value: Any, status: int = 200) -> Response:
    """`value` as strict JSON in UTF-8, never to be stored by a browser or proxy."""
    # A lone surrogate has no UTF-8; backslashreplace writes it as the JSON escape that it is.
    body = dumps(value).encode("utf-8", "backslashreplace")
    return Response(
        body, status, {"Cache-Control": "no-store"}, content_type="application/json; charset=utf-8"
    )


def dumps(value: Any) -> str:
    """JSON that every reader understands: NaN is null, an integer past 2**53 a string."""
    return json.dumps(
        _plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
    )


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case int() if abs(value) > MAX_SAFE_INTEGER:
            return str(value)
        case _:
            return value
