"""The dashboard as a WSGI app: its pages, their files, the JSON routes and /health.

It only reads, and only through BaseStore, so any store will do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from pywrapai_monitor.dashboard import api, security
from pywrapai_monitor.dashboard.guards import Doorkeeper, HostGuard, error, is_api
from pywrapai_monitor.dashboard.json_text import json_response
from pywrapai_monitor.dashboard.pages import Pages
from pywrapai_monitor.dashboard.params import BadParameterError
from pywrapai_monitor.dashboard.source import NotThereError, Source, source_of
from pywrapai_monitor.dashboard.views.status import health
from pywrapai_monitor.db.base import BaseStore, StoreError
from pywrapai_monitor.db.days import time_zone

log = logging.getLogger(__name__)

MAX_FORM_BYTES = 8_192


def create_app(
    store: BaseStore,
    auth_token: str | None = None,
    *,
    tz: str = "UTC",
    allowed_hosts: Collection[str] | None = security.LOOPBACK_HOSTS,
    counts: Callable[[], Mapping[str, int]] | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> Flask:
    """A Flask app over `store`, for waitress, gunicorn and friends.

    Args:
        store: what is read.
        auth_token: every page then asks for it in a form, and every /api route takes it as
            `Authorization: Bearer <token>`. Only /health is open.
        tz: an IANA name: where the address has none, days begin at its midnight.
        allowed_hosts: requests whose Host header names none of these are refused. Behind a proxy
            or on a network give the names that the app is reached by, or None for any name.
        counts: says what waits outside of the store, as `Monitor.recorder.counts` does. Without
            it /health and the status page look into the spool's folder.
        clock: the time in nanoseconds since 1970.

    Raises:
        ValueError: the time zone is unknown, or no header can carry the token.
    """
    time_zone(tz)
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_FORM_BYTES
    source = source_of(store, tz, clock, counts)
    app.before_request(HostGuard(allowed_hosts))
    pages = Pages(app, source, protected=auth_token is not None)
    if auth_token is not None:
        Doorkeeper(app, pages, security.checked_token(auth_token))
    api.add_routes(app, source, protected=auth_token is not None)
    app.add_url_rule("/health", "health", lambda: _health(source))
    app.after_request(_add_headers)
    _Failures(pages).handle(app)
    return app


def _add_headers(response: Response) -> Response:
    response.headers.update(security.HEADERS)
    response.headers.setdefault("Cache-Control", "no-cache")
    return response


def _health(source: Source) -> Response:
    told = health(source)
    return json_response(told, 200 if told["status"] == "ok" else 503)


class _Failures:
    """What went wrong, as JSON for programs and as a page for readers."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def handle(self, app: Flask) -> None:
        app.register_error_handler(BadParameterError, self._bad_parameter)
        app.register_error_handler(NotThereError, self._not_there)
        app.register_error_handler(NotImplementedError, self._cannot)
        app.register_error_handler(StoreError, self._store_failed)
        app.register_error_handler(HTTPException, self._http_error)

    def _bad_parameter(self, failure: BadParameterError) -> Response:
        return self._tell(400, "This address cannot be read", str(failure))

    def _not_there(self, failure: NotThereError) -> Response:
        return self._tell(404, "Not found", str(failure))

    def _cannot(self, failure: NotImplementedError) -> Response:
        return self._tell(501, "Not with this store", str(failure) or "this store cannot do that")

    def _store_failed(self, failure: StoreError) -> Response:
        log.error("the store failed: %s", failure)  # it may name hosts and users: not sent
        message = "the database cannot be read now; the server's log says why"
        return self._tell(503, "No database", message)

    def _http_error(self, failure: HTTPException) -> Response:
        status = failure.code or 500
        message = _HTTP_ERRORS.get(status, failure.name.lower())
        response = self._tell(status, failure.name, message)
        for name, value in failure.get_headers(request.environ):
            if name != "Content-Type":
                response.headers[name] = value
        return response

    def _tell(self, status: int, title: str, message: str) -> Response:
        if is_api(request.path):
            return error(status, message)
        return self._pages.tell(status, title, message)


_HTTP_ERRORS = {
    404: "there is nothing at this address",
    405: "this address can only be read: use GET",
    413: f"a form has at most {MAX_FORM_BYTES} bytes",
    500: "the server failed; its log says why",
}
