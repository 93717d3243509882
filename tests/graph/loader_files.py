"""What tests of load_documents share: files that are made, and what was read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pywrapai_graph.rag.loading import LoadError, load_documents


def texts(*paths: Any, **options: Any) -> list[str]:
    return [document.text for document in load_documents(paths, **options)]


def failures(*paths: Any, **options: Any) -> list[tuple[str, str]]:
    """The name of each file that was not read, and why."""
    told: list[LoadError] = []
    load_documents(paths, on_error=told.append, **options)
    return [(Path(error.path).name, error.reason) for error in told]


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with a line of text on each page; a page without text is blank."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET" if text else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    objects.append(f"<< /Title ({title}) >>")
    written, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return written + (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R /Info {size - 1} 0 R >>\n"
        f"startxref\n{len(written)}\n%%EOF\n"
    ).encode("latin-1")


def save(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
