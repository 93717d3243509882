"""The files of a spool on the disk: lines that wait, whose they are, and where they are kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pywrapai.core.filelock import HeldLock, hold
from pywrapai_monitor.db.base import BaseStore
from pywrapai_monitor.entries_json import from_line

_HEADER = b'{"done":%20d}\n'
HEADER_BYTES = len(_HEADER % 0)
_BLOCK_BYTES = 1024 * 1024
_NAME = re.compile(r"(?P<process>\d+-\d+-[0-9a-f]+)\.(?:lock|\d+\.jsonl)")


@dataclass(slots=True, eq=False)
class SpoolFile:
    """Lines that wait, from `start` to `end`."""

    path: str
    start: int = HEADER_BYTES
    end: int = HEADER_BYTES
    count: int = 0
    last_of: HeldLock | None = None
    """Of a dead process, whose last file it is."""

    def append(self, line: bytes) -> None:
        """All of it, or with an OSError nothing."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            _write_all(descriptor, line)
            self.end, self.count = self.end + len(line), self.count + 1
        except BaseException:
            with suppress(OSError):
                os.ftruncate(descriptor, self.end)
            raise
        finally:
            os.close(descriptor)

    def lines(self, end: int, *, most: int, most_bytes: int) -> list[bytes]:
        """The first ones that wait, before `end`; the last line of a dead process may be torn."""
        found: list[bytes] = []
        size = 0
        with open(self.path, "rb") as file:
            file.seek(self.start)
            while len(found) < most and size < most_bytes and self.start + size < end:
                if not (line := file.readline(end - self.start - size)):
                    break  # somebody has cut the file
                found.append(line)
                size += len(line)
        return found

    def mark(self) -> None:
        """Keep on the disk where the first line that waits begins."""
        with open(self.path, "r+b", buffering=0) as file:
            file.write(_HEADER % self.start)


def create(path: str) -> SpoolFile:
    """An empty one, for this user's eyes alone. OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    try:
        _write_all(descriptor, _HEADER % HEADER_BYTES)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
    return SpoolFile(path)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file of a spool, as one looks at it from outside."""

    path: Path
    entries: int
    size: int
    """Bytes on the disk."""
    oldest_at: int | None
    """When its first entry was made, in microseconds since 1970."""
    held: bool
    """Whether the process lives whose file it is, or that has taken it over."""


def look_at(folder: str | os.PathLike[str]) -> list[Waiting]:
    """The files that wait in a folder, which need not be there. OSError."""
    found: list[Waiting] = []
    for process in sorted(processes_in(folder)):
        lock = hold(os.path.join(folder, f"{process}.lock"))
        for file in _files_of(folder, process):
            with suppress(FileNotFoundError):  # it has just been done
                found.append(_seen(file, held=lock is None))
        if lock is not None:
            lock.release()
    return found


def spool_dir_of(store: BaseStore) -> Path | None:
    """Where the entries of a store wait unless somebody says otherwise.

    Beside an SQLite file; for a server in the user's own directory for such things, one folder a
    database; None for a store that does not say where it is, or is in memory alone.
    """
    location = store.location
    if not location or location == ":memory:":
        return None
    if "://" not in location:
        return Path(f"{location}.spool")
    home = _state_home()
    return None if home is None else home / "pywrapai" / "spool" / _folder_name(location)


def _folder_name(url: str) -> str:
    """One for a database, whoever logs in and by whatever driver."""
    parts = urlsplit(url)
    where = f"{parts.hostname or ''}:{parts.port or ''}{parts.path}?{parts.query}"
    digest = hashlib.sha256(where.encode(errors="surrogateescape")).hexdigest()[:12]
    readable = re.sub(r"[^\w.-]+", "-", f"{parts.hostname or 'local'}{parts.path}", flags=re.ASCII)
    return f"{readable[:60]}-{digest}"


def _state_home() -> Path | None:
    names = {"win32": "LOCALAPPDATA"}
    given = os.environ.get(names.get(sys.platform, "XDG_STATE_HOME"), "")
    if os.path.isabs(given):
        return Path(given)
    under = {"win32": "AppData/Local", "darwin": "Library/Application Support"}
    try:
        return Path.home() / under.get(sys.platform, ".local/state")
    except RuntimeError:  # a user without a home
        return None


def processes_in(folder: str | os.PathLike[str]) -> set[str]:
    """Those that have files in the folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return set()
    return {found["process"] for name in names if (found := _NAME.fullmatch(name))}


def _files_of(folder: str | os.PathLike[str], process: str) -> list[str]:
    """Their paths, oldest first."""
    names = [name for name in os.listdir(folder) if name.startswith(f"{process}.")]
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(".jsonl")]


def left_by(folder: str, process: str) -> list[SpoolFile]:
    """The files of one process; none if it lives, or somebody else was faster."""
    if (lock := hold(os.path.join(folder, f"{process}.lock"))) is None:
        return []
    try:
        files = [file for path in _files_of(folder, process) if (file := _found(path)) is not None]
    except BaseException:
        lock.release()
        raise
    if files:
        files[-1].last_of = lock
    else:
        lock.remove()
    return files


def _found(path: str) -> SpoolFile | None:
    """A file as its process left it; it is deleted if all of it is done."""
    file = _measured(path)
    if file.count:
        return file
    os.unlink(path)
    return None


def _measured(path: str) -> SpoolFile:
    with open(path, "rb") as opened:
        start = _done(opened.read(HEADER_BYTES))
        opened.seek(start)
        count, end, last = 0, start, b"\n"
        while block := opened.read(_BLOCK_BYTES):
            count, end, last = count + block.count(b"\n"), end + len(block), block[-1:]
    return SpoolFile(path, start, end, count + (last != b"\n"))


def _done(header: bytes) -> int:
    """How many bytes; the lines of a file with a damaged header are looked at all."""
    with suppress(ValueError, TypeError, KeyError):
        return max(HEADER_BYTES, int(json.loads(header)["done"]))
    return HEADER_BYTES


def _seen(path: str, held: bool) -> Waiting:
    file = _measured(path)
    first = file.lines(file.end, most=1, most_bytes=1)
    at = None
    with suppress(ValueError):
        at = from_line(first[0]).at if first else None
    return Waiting(Path(path), file.count, os.path.getsize(path), at, held)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other line ends
