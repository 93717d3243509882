"""The files that pages load, at addresses that change with them, so that browsers may keep them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from flask import Flask, Response, send_from_directory

_FOLDER = Path(__file__).parent / "static"
_FOR_A_YEAR = "public, max-age=31536000, immutable"


def version_of(folder: Path) -> str:
    """A name of all that is in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}:{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:12]


class StaticFiles:
    """Modules that import each other by relative addresses stay within one version."""

    def __init__(self, app: Flask) -> None:
        self._version = version_of(_FOLDER)
        app.add_url_rule("/static/<version>/<path:name>", "files", self._send)
        # Where a page names no icon, as a plain text cannot, browsers ask for this one.
        app.add_url_rule("/favicon.ico", "icon", lambda: send_from_directory(_FOLDER, "icon.svg"))

    def path(self, name: str) -> str:
        """Where a file is, below the root of the app."""
        return f"/static/{self._version}/{name}"

    def _send(self, version: str, name: str) -> Response:
        response = send_from_directory(_FOLDER, name)
        if version == self._version:
            response.headers["Cache-Control"] = _FOR_A_YEAR
        return response
