"""What a request has to pass before a page is made, and the forms for signing in and out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from flask import Flask, Response, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from pywrapai_monitor.dashboard import security
from pywrapai_monitor.dashboard.addresses import address, is_local
from pywrapai_monitor.dashboard.json_text import json_response
from pywrapai_monitor.dashboard.login import LIFETIME_S, Failures, Sessions
from pywrapai_monitor.dashboard.pages import Pages

_OPEN = ("health", "files", "icon")
_DOORS = ("/login", "/logout")


def error(status: int, message: str) -> Response:
    """What a program is told."""
    return json_response({"error": message}, status)


def is_api(path: str) -> bool:
    """Whether a program asks, rather than a reader."""
    return path in ("/api", "/health") or path.startswith("/api/")


class HostGuard:
    """Refuses requests that reached this machine under a stranger's name (DNS rebinding)."""

    def __init__(self, allowed: Collection[str] | None) -> None:
        if isinstance(allowed, str):
            raise ValueError(f"allowed_hosts must be a list of names: [{allowed!r}]")
        self._allowed = None if allowed is None else {name.lower() for name in allowed}

    def __call__(self) -> Response | None:
        """None where the request may go on."""
        if security.host_allowed(request.headers.get("Host", ""), self._allowed):
            return None
        names = ", ".join(sorted(self._allowed or ()))
        return error(421, f"the Host header names another machine; this server answers to {names}")


class Doorkeeper:
    """Asks for the token: of programs in a header, of readers in a form, once in twelve hours."""

    def __init__(
        self, app: Flask, pages: Pages, token: str, sessions: Sessions | None = None
    ) -> None:
        self._pages = pages
        self._token = token
        self._sessions = sessions or Sessions(token)
        self._failures = Failures()
        app.before_request(self._ask)
        app.add_url_rule("/login", "login", self._form, methods=["GET"])
        app.add_url_rule("/login", "sign_in", _from_here(self._sign_in), methods=["POST"])
        app.add_url_rule("/logout", "logout", _from_here(self._sign_out), methods=["POST"])

    def _ask(self) -> AnyResponse | None:
        if request.endpoint in _OPEN or request.path in _DOORS or self._is_known():
            return None
        if is_api(request.path):
            return self._refused()
        return redirect(address("/login", {"next": self._wanted()}), 302)

    def _is_known(self) -> bool:
        header = request.headers.get("Authorization", "")
        if header and security.bearer_matches(header, self._token):
            return True
        return self._sessions.holds(request.cookies.get(self._sessions.cookie, ""))

    def _refused(self) -> Response:
        given = request.headers.get("Authorization")
        message = "the token is wrong" if given else "a token is needed"
        response = error(401, f"{message}: send the header Authorization: Bearer <token>")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _wanted(self) -> str | None:
        """Where a reader goes after signing in."""
        if request.method != "GET":
            return None
        query = request.query_string.decode("latin-1")
        path = address(request.path, {})
        return f"{path}?{query}" if query else path if request.path != "/" else None

    def _form(self) -> AnyResponse:
        return self._pages.login(_next(request.args.get("next")), None)

    def _sign_in(self) -> AnyResponse:
        wanted = _next(request.form.get("next"))
        wait_s = self._failures.wait_s(request.remote_addr)
        if wait_s:
            return self._failed(wanted, 429, "Too many wrong tokens. Try again in two seconds.")
        if not self._sessions.is_token(request.form.get("token", "")):
            self._failures.add(request.remote_addr)
            return self._failed(wanted, 403, "This is not the token.")
        response = redirect(wanted, 303)
        response.set_cookie(
            self._sessions.cookie,
            self._sessions.new(),
            max_age=LIFETIME_S,
            **_cookie_attributes(),
        )
        return response

    def _failed(self, wanted: str, status: int, message: str) -> Response:
        response = self._pages.login(wanted, message)
        response.status_code = status
        if status == 429:
            response.headers["Retry-After"] = "2"
        return response

    def _sign_out(self) -> AnyResponse:
        response = redirect(address("/login", {}), 303)
        response.delete_cookie(self._sessions.cookie, **_cookie_attributes())
        return response


def _cookie_attributes() -> dict[str, Any]:
    """Those by which a browser knows the cookie that is to be taken away again."""
    return {
        "path": request.script_root or "/",
        "secure": request.is_secure,
        "httponly": True,
        "samesite": "Strict",
    }


def _next(given: str | None) -> str:
    """Only paths of this site are followed."""
    return given if given and is_local(given) else address("/", {})


def _from_here(answer: Callable[[], AnyResponse]) -> Callable[[], AnyResponse]:
    """A form of another site cannot be sent here."""

    def checked() -> AnyResponse:
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return error(403, "this form was sent from another site")
        return answer()

    return checked
