"""The dashboard as a WSGI app: one page, its two files, the JSON routes and /health.

It only reads, and only through BaseStore, so any store will do.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException

from pywrapai_monitor.dashboard import api, security
from pywrapai_monitor.dashboard.api import BadParameterError, json_response
from pywrapai_monitor.db.base import BaseStore, StoreError
from pywrapai_monitor.db.days import time_zone

log = logging.getLogger(__name__)


def create_app(
    store: BaseStore,
    auth_token: str | None = None,
    *,
    tz: str = "UTC",
    allowed_hosts: Collection[str] | None = security.LOOPBACK_HOSTS,
) -> Flask:
    """A Flask app over `store`, for waitress, gunicorn and friends.

    With `auth_token` every /api route asks for `Authorization: Bearer <token>`; the page loads
    without it and then asks for it. `tz` is an IANA name: days begin at its midnight and the page
    shows its times. A request whose Host header names none of `allowed_hosts` is refused; behind
    a proxy or on a network give the names it is reached by, or None for any name.

    ValueError if the time zone is unknown or no header can carry the token.
    """
    time_zone(tz)
    app = Flask(__name__)
    app.before_request(_HostGuard(allowed_hosts))
    if auth_token is not None:
        app.before_request(_TokenGuard(security.checked_token(auth_token)))
    app.after_request(_add_headers)
    app.register_blueprint(api.blueprint(store, tz))
    app.add_url_rule("/", "page", lambda: _page(tz, auth_token is not None))
    app.add_url_rule("/health", "health", lambda: _health(store))
    app.register_error_handler(BadParameterError, _bad_parameter)
    app.register_error_handler(StoreError, _store_failed)
    app.register_error_handler(HTTPException, _http_error)
    return app


class _HostGuard:
    """Refuses requests that reached this machine under a stranger's name (DNS rebinding)."""

    def __init__(self, allowed: Collection[str] | None) -> None:
        if isinstance(allowed, str):
            raise ValueError(f"allowed_hosts must be a list of names: [{allowed!r}]")
        self._allowed = None if allowed is None else {name.lower() for name in allowed}

    def __call__(self) -> Response | None:
        if security.host_allowed(request.headers.get("Host", ""), self._allowed):
            return None
        names = ", ".join(sorted(self._allowed or ()))
        return _error(421, f"the Host header names another machine; this server answers to {names}")


class _TokenGuard:
    """Answers 401 on every /api path, also one that does not exist, without the token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self) -> Response | None:
        header = request.headers.get("Authorization", "")
        if not _is_api(request.path) or security.bearer_matches(header, self._token):
            return None
        message = "the token is wrong" if header else "a token is needed"
        response = _error(401, f"{message}: send the header Authorization: Bearer <token>")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response


def _is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


def _add_headers(response: Response) -> Response:
    response.headers.update(security.HEADERS)
    response.headers.setdefault("Cache-Control", "no-cache")
    return response


def _page(tz: str, protected: bool) -> str:
    return render_template("index.html", tz=tz, protected=protected)


def _health(store: BaseStore) -> Response:
    try:
        store.get_recent_queries(1)
    except Exception as error:  # whatever a store raises, the answer is that it does not work
        log.warning("the store failed its health check: %s", error)
        return json_response({"status": "error", "database": "error"}, 503)
    return json_response({"status": "ok", "database": "ok"})


def _error(status: int, message: str) -> Response:
    return json_response({"error": message}, status)


def _bad_parameter(error: BadParameterError) -> Response:
    return _error(400, str(error))


def _store_failed(error: StoreError) -> Response:
    log.error("the store failed: %s", error)  # a driver's text may name hosts and users: not sent
    return _error(503, "the database cannot be read now; the server's log says why")


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    response = _error(status, _HTTP_ERRORS.get(status, error.name.lower()))
    for name, value in error.get_headers(request.environ):
        if name != "Content-Type":
            response.headers[name] = value
    return response


_HTTP_ERRORS = {
    404: "there is nothing at this address",
    405: "this address can only be read: use GET",
    500: "the server failed; its log says why",
}
