"""An image as a part of a message's content."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from typing import Any, Self

MAX_BYTES = 20 * 1024 * 1024
"""The largest image that any of the providers takes inline."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image, as bytes or as a URL that the provider fetches. Made by its `from_...` methods."""

    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    media_type: str | None = None
    """Such as "image/png"; None for a URL."""

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Self:
        """The image in a file. ValueError if it is too large, or no PNG, JPEG, GIF or WebP."""
        with open(path, "rb") as file:
            return cls.from_bytes(file.read(MAX_BYTES + 1))

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str | None = None) -> Self:
        """The image in memory; its media type is read from its first bytes unless given.

        ValueError if it is empty, too large, or of a kind that is neither known nor given.
        """
        if not data:
            raise ValueError("the image is empty: it has no bytes")
        if len(data) > MAX_BYTES:
            raise ValueError(f"an image has at most {MAX_BYTES:,} bytes: scale it down")
        return cls(bytes(data), None, media_type or _media_type(data))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """An image that the provider fetches itself, or one inside a `data:` URL.

        ValueError for a URL of another kind, and for what `from_bytes` refuses.
        """
        if url.startswith("data:"):
            head, _, payload = url[5:].partition(",")
            media_type, _, encoding = head.partition(";")
            if encoding != "base64":
                raise ValueError(
                    "a data: URL of an image must be base64: data:image/png;base64,..."
                )
            return cls.from_bytes(_decoded(payload), media_type or None)
        if not url.startswith(("https://", "http://")):
            raise ValueError(
                f"an image URL starts with https://, http:// or data:, not {url[:20]!r}"
            )
        return cls(None, url)

    @property
    def base64(self) -> str:
        """The bytes in base64. ValueError for an image that is only a URL."""
        if self.data is None:
            raise ValueError(f"there are no bytes of {self.url!r} here: use Image.from_bytes")
        return base64.b64encode(self.data).decode("ascii")

    @property
    def as_url(self) -> str:
        """The URL, or a `data:` URL with the bytes."""
        return self.url or f"data:{self.media_type};base64,{self.base64}"

    @property
    def fingerprint(self) -> str:
        """What stands for the image in cache keys and records: its hash and size, or its URL."""
        if self.data is None:
            return str(self.url)
        import hashlib

        return f"sha256:{hashlib.sha256(self.data).hexdigest()} ({len(self.data)} bytes)"

    def to_dict(self) -> dict[str, Any]:
        """JSON values that `from_dict` reads."""
        if self.data is None:
            return {"type": "image", "url": self.url}
        return {"type": "image", "media_type": self.media_type, "data": self.base64}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """What `to_dict` gave."""
        if value.get("data") is None:
            return cls.from_url(value["url"])
        return cls.from_bytes(base64.b64decode(value["data"]), value["media_type"])


def _decoded(payload: str) -> bytes:
    try:
        return base64.b64decode(payload, validate=True)
    except ValueError as error:
        raise ValueError(f"the data: URL of an image holds no base64 ({error})") from None


def _media_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    for magic, media_type in _MAGIC:
        if data.startswith(magic):
            return media_type
    raise ValueError("this is no PNG, JPEG, GIF or WebP; for another kind give its media_type=")
