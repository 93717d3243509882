"""The JSON routes: each is declared once, with its parameters and what it answers with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from flask import Flask, Response

from pywrapai_monitor.dashboard import answers, params
from pywrapai_monitor.dashboard.bodies import BODY_PARAMS, body
from pywrapai_monitor.dashboard.exports import EXPORT_PARAMS, FORMATS, export
from pywrapai_monitor.dashboard.json_text import json_response
from pywrapai_monitor.dashboard.openapi import Operation, described
from pywrapai_monitor.dashboard.pages import arguments
from pywrapai_monitor.dashboard.params import Param, Schema, Values, parse
from pywrapai_monitor.dashboard.source import Source
from pywrapai_monitor.dashboard.views import VIEWS
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.export import COLUMNS

MAX_DAYS = 366
MAX_LIMIT = 1000

Ask: TypeAlias = Callable[[Source, Values], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A GET that answers with JSON."""

    path: str
    what: str
    ask: Ask
    answer: Schema
    params: tuple[Param, ...] = ()


def _cost_over_time(source: Source, values: Values) -> list[Row]:
    return source.store.get_cost_over_time(values["days"], source.tz)


def _recent_queries(source: Source, values: Values) -> list[Row]:
    return _without_bodies(source.store.get_recent_queries(values["limit"]))


def _token_records(source: Source, values: Values) -> list[Row]:
    rows = source.store.get_session_token_records(values["user_id"], values["session_id"])
    return _without_bodies(rows)


def _without_bodies(rows: list[Row]) -> list[Row]:
    """A list never ships what a model wrote."""
    return [{name: row[name] for name in row if name != "partial"} for row in rows]


_ROWS = answers.rows(answers.ANY)
_FIGURES = (
    Route(
        path="/api/overview",
        what="Totals of all time.",
        ask=lambda source, _: source.store.get_overview(),
        answer=answers.ANY,
    ),
    Route(
        path="/api/today",
        what="Totals since midnight in the time zone of the server.",
        ask=lambda source, _: source.store.get_today(source.tz),
        answer=answers.ANY,
    ),
    Route(
        path="/api/cost-over-time",
        what="Calls, tokens and cost of each day, oldest first.",
        ask=_cost_over_time,
        answer=_ROWS,
        params=(params.whole("days", "How many days, today included.", MAX_DAYS, 7),),
    ),
    Route(
        path="/api/model-usage",
        what="Totals of each model, dearest first.",
        ask=lambda source, _: source.store.get_model_usage(),
        answer=_ROWS,
    ),
    Route(
        path="/api/users",
        what="Totals of each user, dearest first.",
        ask=lambda source, _: source.store.get_users(),
        answer=_ROWS,
    ),
    Route(
        path="/api/sessions",
        what="Totals of each session, newest first.",
        ask=lambda source, values: source.store.get_sessions(values["user_id"]),
        answer=_ROWS,
        params=(params.text("user_id", "Only those of this user."),),
    ),
    Route(
        path="/api/recent-queries",
        what="The newest token records, newest first.",
        ask=_recent_queries,
        answer=_ROWS,
        params=(params.whole("limit", "How many.", MAX_LIMIT, 20),),
    ),
    Route(
        path="/api/token-records",
        what="The token records of one session, oldest first.",
        ask=_token_records,
        answer=_ROWS,
        params=(
            params.text("user_id", "Whose session.").needed(),
            params.text("session_id", "Which of that user's sessions.").needed(),
        ),
    ),
)
_BODY = Route(
    path="/api/body",
    what="A whole text, of which other answers have the beginning.",
    ask=body,
    answer=answers.BODY,
    params=BODY_PARAMS,
)
_TWINS = tuple(
    Route(
        path=f"/api/views/{view.name}",
        what=f"What the page {view.path} shows.",
        ask=view.give,
        answer=answers.OF_VIEWS[view.name],
        params=view.all_params,
    )
    for view in VIEWS
)
ROUTES = (*_FIGURES, _BODY, *_TWINS)


def add_routes(app: Flask, source: Source, *, protected: bool) -> None:
    """All that is under /api."""
    for route in ROUTES:
        app.add_url_rule(route.path, route.path, _asks(source, route))
    for table in COLUMNS:
        for format in FORMATS:
            path = f"/api/export/{table}.{format}"
            app.add_url_rule(path, path, _exports(source, table, format))
    description = described(_operations(), protected=protected)
    app.add_url_rule("/api/openapi.json", "openapi", lambda: _described(description))


def _asks(source: Source, route: Route) -> Callable[[], Response]:
    def answer() -> Response:
        return json_response(route.ask(source, parse(route.params, arguments())))

    return answer


def _exports(source: Source, table: str, format: str) -> Callable[[], Response]:
    def answer() -> Response:
        return export(source, table, format, parse(EXPORT_PARAMS, arguments()))

    return answer


def _described(description: Row) -> Response:
    parse((), arguments())
    return json_response(description)


def _operations() -> list[Operation]:
    operations = [Operation(r.path, r.what, r.params, r.answer) for r in ROUTES]
    for table in COLUMNS:
        for format, media_type in FORMATS.items():
            path = f"/api/export/{table}.{format}"
            what = f"Every row of {table}, in the order of writing."
            media_type = media_type.partition(";")[0]
            operations.append(Operation(path, what, EXPORT_PARAMS, {"type": "string"}, media_type))
    operations.append(Operation("/api/openapi.json", "This description.", (), answers.ANY))
    return operations
