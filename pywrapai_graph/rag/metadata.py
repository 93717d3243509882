"""Metadata of chunks: what may be in it, how it is kept as text, and how it is filtered by.

One form serves every store: JSON in ASCII, which no database refuses, not even for NUL bytes or
halves of a character; and for filters, tags. A tag is the text of one key with its value, so that
"is equal" is "has the tag", in every store's own language.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pywrapai_graph.rag.types import Chunk

_to_json = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one each time
_MOST_CHARACTERS = 200
"""Of a tag; beyond that it is a hash, because databases bound what they index."""
_MOST_LEVELS = 100  # well under what recursion allows, here and in json
_MOST_BITS = 10_000  # Python refuses to read a number of more than 4,300 digits from text


def check_metadata(metadata: dict[str, Any], owner: str) -> None:
    """TypeError or ValueError for what would not come back as it went in.

    Text, numbers, True, False, None, and lists and dicts of those do. `owner` is named in errors.
    """
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata of {owner} is {type(metadata).__name__}; expected a dict")
    _check(metadata, "metadata", owner)


def _check(value: Any, place: str, owner: str, levels: int = 0) -> None:
    if value is None or isinstance(value, str):
        return
    if isinstance(value, (int, float)):
        _check_number(value, place, owner)
    elif isinstance(value, (list, dict)):
        if levels == _MOST_LEVELS:
            raise ValueError(f"metadata of {owner} is more than {levels} lists or dicts deep")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict) and not isinstance(key, str):
                raise TypeError(f"{place} of {owner} has the key {key!r:.80}; expected a str")
            _check(item, f"{place}[{key!r}]", owner, levels + 1)
    else:
        raise TypeError(
            f"{place} of {owner} is {type(value).__name__}; stores keep text, numbers, True, "
            "False, None, and lists and dicts of those: convert it, a date with isoformat() say"
        )


def _check_number(number: float, place: str, owner: str) -> None:
    if isinstance(number, float):
        if not math.isfinite(number):
            raise ValueError(f"{place} of {owner} is {number}: give a finite number, or None")
    elif number.bit_length() > _MOST_BITS:
        raise ValueError(f"{place} of {owner} has {number.bit_length()} bits: keep it as text")


def is_same(chunk: Chunk, old: Chunk | None) -> bool:
    """Whether they are equal to a filter too, for which True is not 1."""
    return chunk == old and old is not None and _is_same(chunk.metadata, old.metadata)


def _is_same(value: Any, old: Any) -> bool:
    """Of two values that are equal, whether no bool stands where the other has a number."""
    if isinstance(value, dict):
        return all(_is_same(item, old[key]) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_same, value, old))
    return isinstance(value, bool) is isinstance(old, bool)


def metadata_to_json(metadata: dict[str, Any]) -> str:
    """As ASCII text, which every store can keep."""
    return "{}" if not metadata else _to_json(metadata)


def metadata_from_json(text: str) -> dict[str, Any]:
    """The metadata again."""
    return {} if text == "{}" else dict(json.loads(text))


def tag_of(key: str, value: Any) -> str:
    """The text that stands for a key with this value; equal numbers have the same one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = _to_json([key, value])
    if len(text) <= _MOST_CHARACTERS:
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def tags_of(metadata: dict[str, Any]) -> list[str]:
    """The tags of metadata: one for each key whose value is text, a number, a bool or None."""
    return [tag_of(key, value) for key, value in metadata.items() if _is_scalar(value)]


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


@dataclass(frozen=True, slots=True)
class Where:
    """A filter that was checked: each key with the tags of which a chunk must have one."""

    wanted: tuple[tuple[str, frozenset[str]], ...]

    @classmethod
    def of(cls, filter: Mapping[str, Any] | None) -> Self | None:
        """From `{"source": "a.txt", "page": {"$in": [1, 2]}}`; None where nothing is filtered.

        Raises TypeError or ValueError for what is no such filter.
        """
        if not filter:
            return None
        if not isinstance(filter, Mapping):
            raise TypeError(f'a filter is a dict such as {{"source": "a.txt"}}, not {filter!r:.80}')
        return cls(tuple((key, frozenset(_tags(key, value))) for key, value in filter.items()))

    def admits(self, metadata: dict[str, Any]) -> bool:
        """Whether metadata passes."""
        return all(
            key in metadata and _is_scalar(metadata[key]) and tag_of(key, metadata[key]) in tags
            for key, tags in self.wanted
        )


def _tags(key: Any, wanted: Any) -> Iterator[str]:
    if not isinstance(key, str):
        raise TypeError(f"a filter's key is the name of a metadata field, not {key!r:.80}")
    for value in _values(key, wanted):
        if not _is_scalar(value):
            raise TypeError(
                f"the filter on {key!r} compares with {value!r:.80}; expected text, a number, "
                'True, False or None, or {"$in": [...]} of those'
            )
        yield tag_of(key, value)


def _values(key: str, wanted: Any) -> Collection[Any]:
    if not isinstance(wanted, Mapping):
        return [wanted]
    values = wanted.get("$in")
    if set(wanted) != {"$in"} or not isinstance(values, (list, tuple, set, frozenset)):
        raise ValueError(
            f'the filter on {key!r} is {dict(wanted)!r:.80}; known are a value and {{"$in": [...]}}'
        )
    return values
