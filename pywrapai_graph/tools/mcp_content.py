"""What a tool of an MCP server returned, as a value or as text for a model."""

from __future__ import annotations

from typing import Any

import mcp.types as wire

from pywrapai_graph.tools.results import to_text


def value_of(result: wire.CallToolResult) -> Any:
    """What a tool returned: its text, or else its structured content.

    What is neither is described in words. RuntimeError, with the text, for the result of a
    failure.
    """
    said = [_in_words(part) for part in result.content]
    if result.structured_content is not None and not any(map(_is_text, result.content)):
        if not said and not result.is_error:
            return result.structured_content
        said.insert(0, to_text(result.structured_content))
    if result.is_error:
        raise RuntimeError("\n".join(said) or "the tool failed, and did not say why")
    return "\n".join(said) if said else None


def _is_text(part: wire.ContentBlock) -> bool:
    return isinstance(part, wire.TextContent) or (
        isinstance(part, wire.EmbeddedResource)
        and isinstance(part.resource, wire.TextResourceContents)
    )


def _in_words(part: wire.ContentBlock) -> str:
    match part:
        case wire.TextContent(text=text):
            return text
        case wire.EmbeddedResource(resource=wire.TextResourceContents(text=text)):
            return text
        case wire.EmbeddedResource(resource=wire.BlobResourceContents() as blob):
            kind, size = blob.mime_type or "of unknown type", _size(blob.blob)
            return f"[resource {blob.uri:.200}: {kind}, {size} bytes]"
        case wire.ResourceLink():
            size_told = f", {part.size} bytes" if part.size is not None else ""
            kind = part.mime_type or "of unknown type"
            return f"[link to resource {part.uri:.200}: {kind}{size_told}]"
        case wire.ImageContent() | wire.AudioContent():
            return f"[{part.type}: {part.mime_type}, {_size(part.data)} bytes]"
    return f"[content of the type {part.type!r:.80}]"


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
