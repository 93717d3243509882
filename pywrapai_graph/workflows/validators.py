"""What an answer must be before anybody sees it. Each check raises OutputRejectedError or passes.

A workflow's own check is a function of (request, output) that calls these, or raises the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from math import isfinite
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from pywrapai.core.structured import MAX_ERRORS, Misfit, json_values, shape_of
from pywrapai.exceptions import PyWrapAIError
from pywrapai_graph.workflows.containment import holds, holds_number, normalised, sentences

M = TypeVar("M", bound=BaseModel)
_QUOTED = 200


class OutputRejectedError(PyWrapAIError):
    """The model's answer broke a rule. The model is told the message, or the reasons."""

    rule: str = "rejected"
    """A name for the rule, for counting; what is logged of the error."""
    reasons: tuple[str, ...] = ()
    """What is wrong, one line each, where that is more than the message."""


class CitationNotInRetrieval(OutputRejectedError):
    """The answer cites what the model was not given."""

    rule = "citation_not_in_retrieval"


def parse(text: str, model: type[M]) -> M:
    """The value in a model's text: it may be JSON, hold it in a code fence, or between prose.

    The rule is "json" where there is none, "schema" where it does not fit, and "ambiguous" where
    several fit that differ: one may be quoted from the request.
    """
    shape = shape_of(model)
    closest: Misfit | None = None
    fitting: M | None = None
    for candidate in json_values(text):
        try:
            value: M = shape.validate(candidate)
        except Misfit as misfit:
            closest = closest or misfit
            continue
        if fitting is not None and value != fitting:
            raise OutputRejectedError("there are two answers in it; give one", rule="ambiguous")
        fitting = value
    if fitting is not None:
        _check_writable(fitting)
        return fitting
    if closest is None:
        raise OutputRejectedError("there is no JSON in the answer", rule="json")
    raise OutputRejectedError(str(closest), rule="schema", reasons=closest.errors)


def check_citations(cited: Iterable[str], retrieved: Collection[str]) -> None:
    """Every id that is cited is one of those that were retrieved. CitationNotInRetrieval."""
    invented = [chunk_id for chunk_id in dict.fromkeys(cited) if chunk_id not in retrieved]
    if invented:
        some = ", ".join(map(_quoted, invented[:MAX_ERRORS]))
        raise CitationNotInRetrieval(f"cited, but not among the passages: {some}")


def check_cited(cited: Collection[str]) -> None:
    """There is a citation. The rule is "citation_required"."""
    if not cited:
        raise OutputRejectedError("nothing is cited", rule="citation_required")


def check_contained(
    output: BaseModel, sources: Iterable[str], *, leave_out: Collection[str] = ()
) -> None:
    """Every text and number in the output stands in one of the sources. The rule is "containment".

    A phrase here is the whole text of a field. Blank ones, None, True and False say nothing.

    Args:
        output: any model; the models, lists and dicts in it are looked through.
        sources: where the phrases must stand, each of them within one.
        leave_out: fields that are a judgement, by their path: "severity", "issues.severity".
    """
    texts = [normalised(source) for source in sources]
    _refuse(
        f"{path}: {_quoted(value)} is not in the source, word for word"
        for path, value in _leaves(output, "")
        if not _is_left_out(path, leave_out) and not _is_in(texts, value)
    )


def check_supported(answer: str, sources: Iterable[str]) -> None:
    """Every sentence of the answer stands in one of the sources. The rule is "containment"."""
    texts = [normalised(source) for source in sources]
    said = sentences(answer) or [answer]
    _refuse(
        f"{_quoted(sentence)} is not in the sources, word for word"
        for sentence in said
        if not any(holds(text, sentence) for text in texts)
    )


def _check_writable(value: BaseModel) -> None:
    """That JSON can say it, which what Python reads as JSON need not be."""
    try:
        value.model_dump_json()
    except ValueError:  # from a broken escape such as "\\ud83d"
        raise OutputRejectedError("a text in it has half of a character", rule="schema") from None
    for path, leaf in _leaves(value, ""):
        if isinstance(leaf, float) and not isfinite(leaf):
            raise OutputRejectedError(f"{path}: {leaf} is no number of JSON", rule="schema")


def _refuse(missing: Iterator[str]) -> None:
    some = tuple(islice(missing, MAX_ERRORS))  # a model that runs in circles breaks thousands
    if some:
        raise OutputRejectedError("; ".join(some), rule="containment", reasons=some)


def _is_in(texts: list[str], value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip() or any(holds(text, value) for text in texts)
    return any(holds_number(text, value) for text in texts)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str | int | float]]:
    """The texts and numbers in a value, with the names of the fields on the way."""
    match value:
        case None | bool():
            return
        case Enum():
            yield from _leaves(value.value, path)
        case str() | int() | float():
            yield path, value
        case BaseModel():
            for name, item in value:
                yield from _leaves(item, f"{path}.{name}" if path else name)
        case Mapping():  # its keys are the model's words too
            for key, item in value.items():
                yield from _leaves(key, path)
                yield from _leaves(item, path)
        case list() | tuple() | set() | frozenset():
            for item in value:
                yield from _leaves(item, path)
        case _:
            yield from _leaves(to_jsonable_python(value, serialize_unknown=True), path)


def _is_left_out(path: str, leave_out: Collection[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in leave_out)


def _quoted(value: str | int | float) -> str:
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
