"""A chunk as a record of Chroma, and out of one again; filters as Chroma has them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pywrapai_graph.rag.metadata import Where, tags_of
from pywrapai_graph.rag.stores.records import Found, found_of, readable, record_of
from pywrapai_graph.rag.types import Chunk

_RECORD = "pywrapai"
_TAG = "tag:"
_HASHED = "sha256:"
_LONGEST = 128
"""Of an id and of a field's name; longer ones are told by a hash."""


class Row(NamedTuple):
    """What Chroma gives of one record."""

    key: str
    document: str | None
    fields: Mapping[str, Any] | None
    score: float = 0.0

    @property
    def is_there(self) -> bool:
        """False for what another process removed while Chroma looked for it."""
        return self.document is not None or self.fields is not None


def key_of(id: str) -> str:
    """The id, where Chroma takes it; else a hash."""
    if 0 < len(id) <= _LONGEST and readable(id) == id and not id.startswith(_HASHED):
        return id
    return _HASHED + hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


def fields_of(chunk: Chunk, inserted: int) -> dict[str, Any]:
    """The metadata of a record: the rest of the chunk, and a tag for each field to filter by."""
    fields: dict[str, Any] = {_RECORD: record_of(chunk, inserted)}
    for key, value in chunk.metadata.items():
        for tag in tags_of({key: value}):
            fields[_field(key)] = tag
    return fields


def _field(key: str) -> str:
    name = json.dumps(key)[1:-1]
    return _TAG + (name if len(name) <= _LONGEST else key_of(name))


def conditions_of(where: Where | None) -> dict[str, Any] | None:
    """A filter in Chroma's terms; each of its keys has at least one tag."""
    if where is None:
        return None
    each: list[dict[str, Any]] = [
        {_field(key): {"$in": sorted(tags)}} for key, tags in where.wanted
    ]
    return each[0] if len(each) == 1 else {"$and": each}


def found_in(row: Row) -> Found:
    """The chunk in a record, be it that others wrote it; VectorStoreError if it is no such."""
    fields = row.fields or {}
    if (record := fields.get(_RECORD)) is None:
        return Found(Chunk(row.document or "", metadata=dict(fields), id=row.key), 0, row.score)
    return found_of(row.document or "", record, row.score, row.key)
