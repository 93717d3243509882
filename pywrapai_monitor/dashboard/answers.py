"""What the JSON routes answer with, as JSON Schema. A whole number past 2**53 comes as a text."""

from __future__ import annotations

from typing import Any

from pywrapai_monitor.dashboard.colors import PALETTE
from pywrapai_monitor.dashboard.params import RANGES, Schema

ANY: Schema = {"type": "object"}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
WHOLE: Schema = {"type": ["integer", "string"]}
NUMBER: Schema = {"type": ["number", "string"]}
MOMENT: Schema = {"type": "string"}


def maybe(schema: Schema) -> Schema:
    """Or null."""
    if isinstance(schema.get("type"), str | list) and "enum" not in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": [*kinds, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def rows(schema: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": schema}


def obj(**fields: Schema) -> Schema:
    """An object with these fields, and perhaps others."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def _all(schema: Schema, *names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, schema)


_RANGE = obj(
    name=maybe({"enum": list(RANGES)}),
    label=TEXT,
    tz=TEXT,
    **_all(maybe(TEXT), "from", "to", "since", "until", "step"),
    finished=FLAG,
    previous=maybe(obj(since=maybe(MOMENT), until=maybe(MOMENT))),
)
_TOKENS = _all(
    maybe(WHOLE), "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
    "reasoning_tokens",
)  # fmt: skip
_STEP = (
    _all(maybe(WHOLE), "calls", "errors", "cached_calls", "unpriced_calls", "embeddings")
    | _TOKENS
    | {"total_tokens": maybe(WHOLE), "cost_usd": maybe(NUMBER), "error_rate": maybe(NUMBER)}
    | _all(maybe(NUMBER), "avg_duration_ms", "p50_ms", "p95_ms", "p99_ms")
)
_FIGURES = obj(**_STEP, users=maybe(WHOLE), sessions=maybe(WHOLE))
_CHANGE = obj(**_all(maybe(NUMBER), "value", "previous", "change"))
_COLOR: Schema = {"type": "integer", "minimum": 0, "maximum": PALETTE - 1}
_CALL = obj(
    **_all(TEXT, "created_at", "user_id", "session_id", "model"), color=_COLOR, cost_usd=NUMBER
)
_SESSION = obj(
    user_id=TEXT, session_id=TEXT, calls=WHOLE, errors=WHOLE, turns=WHOLE, total_tokens=WHOLE,
    cost_usd=NUMBER, first_at=MOMENT, last_at=MOMENT,
)  # fmt: skip
_USER = obj(
    user_id=TEXT, calls=WHOLE, errors=WHOLE, error_rate=maybe(NUMBER), total_tokens=WHOLE,
    cost_usd=NUMBER,
)  # fmt: skip
_PART = {"cost_usd": NUMBER, "values": rows(NUMBER)}
_PAGE: dict[str, Schema] = _all(maybe(TEXT), "next", "searched_to", "cursor")
_MESSAGE = obj(
    id=WHOLE, created_at=MOMENT, role=TEXT, content=maybe(TEXT), content_length=WHOLE,
    items=maybe(rows(ANY)),
)  # fmt: skip
_TOOL = obj(tool_name=TEXT, status=TEXT, duration_ms=maybe(NUMBER), arguments=maybe(TEXT))
_FEEDBACK = maybe(obj(score=NUMBER, comment=maybe(TEXT)))
_DETAIL = obj(
    message=ANY,
    call=maybe(_CALL),
    system_prompt=maybe(TEXT),
    history=maybe(rows(ANY)),
    history_count=maybe(WHOLE),
    rag_context=maybe(rows(obj(text=maybe(TEXT), bar=maybe(NUMBER)))),
    tools=rows(_TOOL),
    feedback=_FEEDBACK,
)
_VERSION = obj(version=TEXT, calls=WHOLE, errors=WHOLE, cost_usd=NUMBER, p95_ms=maybe(NUMBER))


def _top(schema: Schema) -> Schema:
    return maybe(obj(rows=rows(schema)))


OF_VIEWS: dict[str, Any] = {
    "overview": obj(
        range=_RANGE,
        empty=FLAG,
        headline=maybe(obj(**_all(_CHANGE, "calls", "cost_usd", "error_rate", "p95_ms"))),
        figures=maybe(_FIGURES),
        today=maybe(_FIGURES),
        unpriced_calls=maybe(WHOLE),
        steps=maybe(rows(obj(start=MOMENT, end=MOMENT, label=TEXT, finished=FLAG, **_STEP))),
        cost_by_model=maybe(
            obj(
                shown=WHOLE,
                of=WHOLE,
                models=rows(obj(model=TEXT, provider=TEXT, color=_COLOR, **_PART)),
                others=maybe(obj(models=WHOLE, **_PART)),
            )
        ),
        tokens=maybe(
            rows(obj(name=TEXT, label=TEXT, value=WHOLE, share=maybe(NUMBER), values=rows(WHOLE)))
        ),
        models=_top(obj(model=TEXT, kind=TEXT, calls=WHOLE, cost_usd=NUMBER, color=_COLOR)),
        users=_top(_USER),
        sessions=_top(_SESSION),
        tools=_top(obj(tool_name=TEXT, calls=WHOLE, errors=WHOLE)),
        calls=_top(_CALL),
        cannot=rows(TEXT),
    ),
    "calls": obj(range=_RANGE, filters=ANY, filtered=FLAG, rows=rows(_CALL), **_PAGE),
    "call": obj(
        call=_CALL, messages=rows(_MESSAGE), tools=rows(_TOOL), feedback=_FEEDBACK,
        conversation=FLAG,
    ),
    "conversations": obj(
        range=_RANGE, filters=ANY, filtered=FLAG, rows=rows(_SESSION), **_PAGE
    ),
    "conversation": obj(
        session=_SESSION,
        messages=rows(_MESSAGE),
        older=maybe(WHOLE),
        newer=maybe(WHOLE),
        detail=maybe(_DETAIL),
    ),
    "users": obj(
        range=_RANGE, rows=rows(_USER), of=maybe(WHOLE), cost_usd=maybe(NUMBER), **_PAGE
    ),
    "prompts": obj(rows=rows(obj(name=TEXT, active=maybe(TEXT), versions=WHOLE))),
    "prompt": obj(
        range=_RANGE,
        name=TEXT,
        active=maybe(TEXT),
        versions=rows(_VERSION),
        unlisted=rows(_VERSION),
        version=maybe(TEXT),
        text=maybe(TEXT),
        text_length=WHOLE,
        diff=maybe(obj(a=TEXT, b=TEXT, same=FLAG, lines=rows(obj(kind=TEXT, text=TEXT)))),
        pins=maybe(obj(rows=rows(ANY), next=maybe(TEXT))),
    ),
    "status": obj(
        status={"enum": ["ok", "error"]},
        database_status={"enum": ["ok", "error"]},
        database=maybe(TEXT),
        schema_version=maybe(WHOLE),
        size_bytes=maybe(WHOLE),
        location=maybe(TEXT),
        counts=maybe(obj(**_all(maybe(WHOLE), "queued", "spooled", "lost", "written"))),
        counted_in=maybe(TEXT),
        answered_in_ms=maybe(NUMBER),
        read_now_at=MOMENT,
    ),
}  # fmt: skip
BODY = obj(table=TEXT, id=WHOLE, name=TEXT, text=TEXT, length=WHOLE)
ERROR = obj(error=TEXT)
