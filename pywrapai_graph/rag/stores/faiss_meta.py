"""The metadata file of a FAISSVectorStore: chunks as JSON, a line each, save after save.

    {"format": "pywrapai-faiss", "version": 1, "dimension": 3, "made": "5f0c..."}
    {"save": 1, "key": "a941...", "chunks": 2, "deleted": []}
    {"id": "a", "text": "...", "metadata": {...}}
    {"id": "b", "text": "..."}
    {"saved": 1}

The last line of a save is written once the index has its key. Where it is missing, the process
was killed: the key in the index says whether the save counts. Each chunk is the next row of the
index, and the latest of an id stands. Text is UTF-8 in which halves of a character may occur.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, BinaryIO, NoReturn

from pywrapai_graph.rag.errors import VectorStoreError
from pywrapai_graph.rag.stores.records import OPTIONAL_FIELDS, optional_fields_of
from pywrapai_graph.rag.types import Chunk

_FORMAT, _VERSION = "pywrapai-faiss", 1
_ALWAYS = ("id", "text")
_SAVED = b'{"saved":'
_FIELDS = {field.name for field in fields(Chunk)} - {"embedding"}
_encoded = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Save:
    """What one save changes: these ids are gone, and then these chunks are there."""

    deleted: list[str]
    chunks: list[Chunk]


@dataclass(frozen=True, slots=True)
class Opening:
    """The first line."""

    dimension: int | None
    """None where the store was cleared, so that its next chunks may have another one."""
    made: str
    """Another one whenever the file is written anew, and not only longer."""


class WrongFile(VectorStoreError):
    """The metadata is not of this index; the message says which of the two is wrong."""


def opening_line(opening: Opening) -> bytes:
    """The first line of a file."""
    told = {"dimension": opening.dimension, "made": opening.made}
    return _line({"format": _FORMAT, "version": _VERSION, **told})


def save_lines(number: int, key: int, save: Save) -> Iterator[bytes]:
    """The lines of a save, but for the last one."""
    counts = {"chunks": len(save.chunks), "deleted": save.deleted}
    yield _line({"save": number, "key": f"{key:016x}", **counts})
    yield from map(_chunk_line, save.chunks)


def saved_line(number: int) -> bytes:
    """The last line of a save."""
    return _SAVED + f"{number}}}\n".encode()


def _chunk_line(chunk: Chunk) -> bytes:
    always = {name: getattr(chunk, name) for name in _ALWAYS}
    return _line(always | optional_fields_of(chunk))


def _line(value: Any) -> bytes:
    return _encoded(value).encode("utf-8", "surrogatepass") + b"\n"


def read_opening(line: bytes, path: str) -> Opening | None:
    """The first line; None where the file is of another kind."""
    try:
        told = json.loads(line)
        if told["format"] != _FORMAT:
            return None
        version, opening = told["version"], Opening(told["dimension"], told["made"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if version != _VERSION:
        raise VectorStoreError(
            f"{path} has the format {version!r}, and this version of pywrapai reads {_VERSION}: "
            "upgrade pywrapai"
        )
    return opening


def read_saves(
    file: BinaryIO, number: int, key: int, *, index: str, path: str
) -> tuple[list[Save], int]:
    """The saves from where the file stands up to that of the index, and where this one ends.

    Raises:
        WrongFile: the metadata has no such save, or has saves after it.
        VectorStoreError: the file is damaged.
    """
    saves: list[Save] = []
    while True:
        head = _read_head(file, path)
        if head is None:
            _is_wrong(path, f"it ends before save {number}, which {index} has: it is older")
        if head["save"] > number:
            _is_wrong(index, f"it has save {number}, and {path} has later ones: it is older")
        saves.append(Save(head["deleted"], list(_read_chunks(file, head["chunks"], path))))
        if head["save"] == number:
            break
    if head["key"] != f"{key:016x}":
        _is_wrong(index, f"its save {number} is not that of {path}: it is of another store")
    end = file.tell()
    if any(_is_saved_line(line) and line != saved_line(number) for line in file):
        _is_wrong(index, f"it has save {number}, and {path} has later ones: it is older")
    return saves, end


def _is_saved_line(line: bytes) -> bool:
    return line.startswith(_SAVED) and line.endswith(b"\n")


def _is_wrong(path: str, why: str) -> NoReturn:
    raise WrongFile(
        f"{path} is the wrong file: {why}. The two belong together: put both back from one "
        "backup, or remove both and add the documents again"
    )


def _read_head(file: BinaryIO, path: str) -> dict[str, Any] | None:
    """The line that begins the next save; None where there is no whole one."""
    line = file.readline()
    if line.startswith(_SAVED):
        line = file.readline()
    if not line.endswith(b"\n"):
        return None
    head = _parsed(line, file, path)
    if not {"save", "key", "chunks", "deleted"} <= head.keys():
        _is_damaged(file, path)
    return head


def _read_chunks(file: BinaryIO, count: int, path: str) -> Iterator[Chunk]:
    for _ in range(count):
        try:
            yield Chunk(**_parsed(file.readline(), file, path))
        except TypeError:
            _is_damaged(file, path)


def _parsed(line: bytes, file: BinaryIO, path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line.decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, RecursionError):
        _is_damaged(file, path)


def _is_damaged(file: BinaryIO, path: str) -> NoReturn:
    raise VectorStoreError(
        f"{path} is damaged before byte {file.tell()}: put it and the index back from one backup, "
        "or remove both and add the documents again"
    ) from None


class _Plain(pickle.Unpickler):
    """Makes nothing but dicts, lists, texts, numbers, True, False and None: it calls nothing."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which was not loaded")


def chunks_of_pickle(content: bytes, path: str) -> list[Chunk]:
    """The chunks in a pickle that is a list of dicts, each with the fields of a Chunk.

    Whatever else is in it is refused before anything of it runs.
    """
    try:
        found = _Plain(io.BytesIO(content)).load()
    except Exception as error:  # which of them, depends on the bytes
        raise VectorStoreError(
            f"{path} is neither a metadata file of FAISSVectorStore nor a pickle of plain data: "
            f"{error}. Give another meta_path, and add the documents again"
        ) from error
    return list(_chunks_of(found, path))


def _chunks_of(found: Any, path: str) -> Iterable[Chunk]:
    for one in found if isinstance(found, list) else [found]:
        if not (isinstance(one, dict) and set(_ALWAYS) <= one.keys() <= _FIELDS):
            raise VectorStoreError(
                f'{path} is a pickle of something else; expected a list of dicts with "id", "text" '
                f"and any of {', '.join(OPTIONAL_FIELDS)}, one for each row of the index"
            )
        yield Chunk(**one)
