"""The description of the JSON routes for other programs, in OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pywrapai_monitor.dashboard.answers import ERROR
from pywrapai_monitor.dashboard.params import Param, Schema

_JSON = "application/json"
_ERRORS = {
    "400": "A parameter is missing, unknown or not what it has to be.",
    "404": "There is no such thing.",
    "421": "The Host header names another machine.",
    "501": "This store cannot do that.",
    "503": "The database cannot be read now.",
}
_REFUSED = {"401": "The token is missing or wrong."}


@dataclass(frozen=True, slots=True)
class Operation:
    """One GET."""

    path: str
    what: str
    params: Sequence[Param]
    answer: Schema
    media_type: str = _JSON


def described(operations: Iterable[Operation], *, protected: bool) -> dict[str, Any]:
    """All of them."""
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "PyWrapAI Monitor",
            "version": "1",
            "description": "Reads what a Monitor has recorded. Times are ISO 8601 in UTC, money is "
            "USD, durations are milliseconds; a whole number past 2**53 is a string.",
        },
        "paths": {each.path: {"get": _operation(each, protected)} for each in operations},
        "components": {"schemas": {"Error": ERROR}},
    }
    if protected:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _operation(operation: Operation, protected: bool) -> dict[str, Any]:
    errors = _ERRORS | (_REFUSED if protected else {})
    return {
        "operationId": operation.path.strip("/").replace("/", "_").replace(".", "_"),
        "summary": operation.what,
        "parameters": [_parameter(param) for param in operation.params],
        "responses": {
            "200": _response("The answer.", operation.media_type, operation.answer),
            **{status: _error(what) for status, what in sorted(errors.items())},
        },
    }


def _parameter(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "in": "query",
        "description": param.what,
        "required": param.required,
        "schema": param.schema,
    }


def _error(what: str) -> dict[str, Any]:
    return _response(what, _JSON, {"$ref": "#/components/schemas/Error"})


def _response(what: str, media_type: str, schema: Schema) -> dict[str, Any]:
    return {"description": what, "content": {media_type: {"schema": schema}}}
