"""The pages: each shows what its view gives, and says in words what went wrong."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flask import Flask, Response, g, make_response, render_template, request

from pywrapai_monitor.dashboard import addresses
from pywrapai_monitor.dashboard.bodies import BODY_PARAMS, whole_text
from pywrapai_monitor.dashboard.json_text import encoded
from pywrapai_monitor.dashboard.params import RANGES, Arguments, parse
from pywrapai_monitor.dashboard.showing import FILTERS, Times
from pywrapai_monitor.dashboard.source import Source
from pywrapai_monitor.dashboard.static_files import StaticFiles
from pywrapai_monitor.dashboard.views import VIEWS, View
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.instants import iso_of

_IN_MENU = [view for view in VIEWS if view.in_menu]
_RANGE_LABELS = {name: label.removeprefix("Last ") for name, label in RANGES.items()}


class Pages:
    """All of one app."""

    def __init__(self, app: Flask, source: Source, *, protected: bool) -> None:
        self._source = source
        self._protected = protected
        self._files = StaticFiles(app)
        for view in VIEWS:
            app.add_url_rule(view.path, view.name, self.shows(view))
        app.add_url_rule("/body", "body", self._body)
        app.jinja_env.filters.update(FILTERS)
        for name in ("time", "clock", "day", "ago"):
            app.jinja_env.filters[name] = _in_zone(name)
        app.jinja_env.globals.update(
            url=addresses.url,
            url_with=addresses.url_with,
            body_url=addresses.body_url,
            export_url=addresses.export_url,
            static=lambda name: f"{request.script_root}{self._files.path(name)}",
        )

    def shows(self, view: View) -> Any:
        """What Flask calls for this page."""

        def show() -> Response:
            values = parse(view.all_params, arguments(), blank_is_none=True)
            found = view.give(self._source, values)
            page = self._page(view.name, view.title, values["tz"] or self._source.tz)
            page["json_url"] = addresses.json_url(view.name)
            page["kept"] = list(addresses.kept().items())
            page["nav"], page["ranges"] = _menu(view.name), _ranges(found.get("range"))
            return self._rendered(f"{view.name}.html", page, view=found)

        return show

    def tell(self, status: int, title: str, message: str) -> Response:
        """A page that says what went wrong, with links that keep nothing."""
        template = "notice.html" if status == 501 else "error.html"
        page = self._page("error", title, self._source.tz)
        page["nav"] = [] if status == 421 else _plain_menu()
        response = self._rendered(template, page, status=status, title=title, message=message)
        response.status_code = status
        return response

    def login(self, next: str, failed: str | None) -> Response:
        """The form that asks for the token."""
        page = self._page("login", "Sign in", self._source.tz) | {"protected": False}
        return self._rendered("login.html", page, next=next, failed=failed)

    def _page(self, name: str, title: str, tz: str) -> Row:
        return {
            "name": name,
            "title": title,
            "json_url": None,
            "tz": tz,
            "default_tz": self._source.tz,
            "protected": self._protected,
            "now": iso_of(self._source.now),
            "version": _VERSION,
            "nav": [],
            "ranges": [],
            "kept": [],
        }

    def _rendered(self, template: str, page: Row, **values: Any) -> Response:
        g.times = Times(page["tz"], self._source.now)
        text = render_template(template, page=page, **values)
        response = make_response(encoded(text))
        response.headers["Cache-Control"] = "no-store"
        response.content_type = "text/html; charset=utf-8"
        return response

    def _body(self) -> Response:
        text = whole_text(self._source, parse(BODY_PARAMS, arguments()))
        headers = {"Cache-Control": "no-store"}
        return Response(encoded(text), headers=headers, content_type="text/plain; charset=utf-8")


def arguments() -> Arguments:
    """The query of the present request."""
    return request.args


def _menu(current: str) -> list[Row]:
    """Links that keep the time, with the place of the present page."""
    parents = {"call": "calls", "conversation": "conversations", "prompt": "prompts"}
    shown = parents.get(current, current)
    return [_link(view, addresses.url(view.name), view.name == shown) for view in _IN_MENU]


def _plain_menu() -> list[Row]:
    """Links that keep nothing."""
    return [_link(view, addresses.address(view.path, {}), False) for view in _IN_MENU]


def _link(view: View, href: str, current: bool) -> Row:
    return {"label": view.title, "href": href, "current": current}


def _ranges(shown: Row | None) -> list[Row]:
    current = shown["name"] if shown else request.args.get("range")
    return [
        {
            "label": label,
            "href": addresses.url_with(**{"range": name, "from": None, "to": None}),
            "current": name == current,
        }
        for name, label in _RANGE_LABELS.items()
    ]


def _in_zone(name: str) -> Any:
    return lambda text: getattr(g.times, name)(text)


def _version() -> str:
    try:
        return version("pywrapai")
    except PackageNotFoundError:
        return ""


_VERSION = _version()
