"""Finding a text in a column, whatever the case, with nothing in it that is a wildcard."""

from __future__ import annotations

import re
from unicodedata import normalize

from sqlalchemy import ColumnElement, any_, func, or_
from sqlalchemy.dialects import postgresql

from pywrapai_monitor.db import codec

_WILDCARD = re.compile(r"[%_\\]")
LONGEST = 500
"""Characters of a text that is looked for."""


def wanted(text: str) -> str:
    """The text as it may be stored. ValueError if it is too long to be looked for."""
    if len(text) > LONGEST:
        raise ValueError(f"text has {len(text)} characters: look for at most {LONGEST} of them")
    return codec.readable(text)


def contains(column: ColumnElement[str], text: str, dialect: str) -> ColumnElement[bool]:
    """Whether a column has the text."""
    if dialect == "postgresql":  # which would change the case of a text for each form anew
        patterns = [func.lower(_pattern(form)) for form in _forms(text, dialect)]
        return func.lower(column).like(any_(postgresql.array(patterns)))
    return or_(*(column.icontains(form, autoescape=True) for form in _forms(text, dialect)))


def around(
    column: ColumnElement[str], text: str, most: int, dialect: str
) -> ColumnElement[str | None]:
    """What stands around the first place where a column has the text."""
    place = func.strpos if dialect == "postgresql" else func.instr
    lower = func.lower(column)
    places = [func.nullif(place(lower, func.lower(form)), 0) for form in _forms(text, dialect)]
    first = func.coalesce(*places, 1)
    lead = max(most - len(text), 0) // 2
    highest = func.max if dialect == "sqlite" else func.greatest
    start = highest(first - lead, 1)
    return func.substr(column, start, most)


def _pattern(form: str) -> str:
    escaped = _WILDCARD.sub(r"\\\g<0>", form)
    return f"%{escaped}%"


def _forms(text: str, dialect: str) -> list[str]:
    """Some databases know the case of ASCII alone, and none that an accent may stand apart."""
    if text.isascii():
        return [text]
    knows_case = dialect in {"mysql", "mariadb"}
    cases = (text,) if knows_case else (text, text.lower(), text.upper(), text.capitalize())
    return list(dict.fromkeys(normalize(form, case) for case in cases for form in ("NFC", "NFD")))
