"""What a docstring says of a function and its parameters: Google's, NumPy's or Sphinx's style.

Reading the sections is the docstring-parser package's work; it is imported when there are any.
"""

from __future__ import annotations

import re
from contextlib import suppress

from pywrapai.core.extras import needs

_SPHINX = re.compile(r"^\s*:(param|parameter|arg|argument|key|keyword)\b", re.MULTILINE)
_NUMPY = re.compile(r"^\s*(Other )?Parameters\s*\n\s*---", re.MULTILINE)
_GOOGLE = re.compile(r"^\s*(Args|Arguments|Parameters|Params)\s*:\s*$", re.MULTILINE)


def first_line(docstring: str | None) -> str:
    """The first line that is not blank; empty without a docstring."""
    lines = (docstring or "").strip().splitlines()
    return lines[0].strip() if lines else ""


def parameter_descriptions(docstring: str | None) -> dict[str, str]:
    """Each described parameter's text in one line, by its name without asterisks.

    A docstring whose sections cannot be read has none.
    """
    style = _style(docstring or "")
    if style is None:
        return {}
    with needs("tools"):
        from docstring_parser import google, numpydoc, rest
        from docstring_parser.common import ParseError
    parse = {"google": google.parse, "numpy": numpydoc.parse, "sphinx": rest.parse}[style]
    found: dict[str, str] = {}
    with suppress(ParseError):
        for param in parse(docstring or "").params:
            text = " ".join((param.description or "").split())
            for name in param.arg_name.split(","):  # NumPy's "x, y : int"
                found[name.strip().lstrip("*")] = text
    return {name: text for name, text in found.items() if text}


def _style(docstring: str) -> str | None:
    if _NUMPY.search(docstring):
        return "numpy"
    if _GOOGLE.search(docstring):
        return "google"
    return "sphinx" if _SPHINX.search(docstring) else None
