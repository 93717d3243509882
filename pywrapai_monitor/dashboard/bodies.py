"""One whole text: what "show all" leads to."""

from __future__ import annotations

from pywrapai_monitor.dashboard import params
from pywrapai_monitor.dashboard.params import BadParameterError, Values
from pywrapai_monitor.dashboard.source import NotThereError, Source, known
from pywrapai_monitor.db.analytics import BODIES
from pywrapai_monitor.db.base import Row

_NAMES = sorted({name for names in BODIES.values() for name in names})
BODY_PARAMS = (
    params.one_of("table", "Where it is.", list(BODIES)).needed(),
    params.row_id("id", "In which row.").needed(),
    params.one_of("name", "Which text of the row.", _NAMES).needed(),
)


def whole_text(source: Source, values: Values) -> str:
    """The text. NotThereError if there is none."""
    table, name = values["table"], values["name"]
    if name not in BODIES[table]:
        raise BadParameterError(
            f"name must be one of {', '.join(BODIES[table])} where table is {table}, not {name!r}"
        )
    with known():
        text = source.analytics.body(table, values["id"], name)
    if text is None:
        raise NotThereError(f"row {values['id']} of {table} has no {name}")
    return text


def body(source: Source, values: Values) -> Row:
    """The text, as JSON has it."""
    text = whole_text(source, values)
    return {**values, "text": text, "length": len(text)}
