"""Answers that fit a schema: what to ask for, and how to find it in what a model writes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from pywrapai.core.base import LLMResponse, Message, Request, Role
from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow
from pywrapai.exceptions import StructuredOutputError

MAX_ERRORS = 8
MAX_ERROR_LENGTH = 300
MAX_CANDIDATES = 200
"""Places in a text where JSON may begin that are tried before giving up."""
CUT_OFF = "it was cut off at the limit of output tokens: make it shorter"
"""What a model is told of such an answer."""

_FENCE = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)  # models put raw line breaks into strings
# Pydantic takes longer to write a class's schema than a whole call takes here.
_schemas: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()

Ask: TypeAlias = Callable[[Request, Callable[[LLMResponse], bool]], Flow[LLMResponse]]
"""How one answer is asked for: the request, and what says whether a cache may keep the answer."""


class Misfit(ValueError):
    """A text holds nothing that fits; `errors` say what is wrong with what came closest."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(error[:MAX_ERROR_LENGTH] for error in errors[:MAX_ERRORS])
        super().__init__("; ".join(self.errors))


@dataclass(frozen=True, slots=True)
class Shape:
    """What an answer must be."""

    schema: dict[str, Any]
    """As JSON Schema."""
    validate: Callable[[Any], Any]
    """The value for parsed JSON; Misfit if it does not fit."""

    def read(self, text: str) -> Any:
        """The first value in the text that fits. Misfit if there is none."""
        closest: Misfit | None = None
        for candidate in json_values(text):
            try:
                return self.validate(candidate)
            except Misfit as misfit:
                closest = closest or misfit
        raise closest or Misfit(["there is no JSON in the answer"])

    def fits(self, text: str) -> bool:
        """Whether `read` finds something."""
        try:
            self.read(text)
        except Misfit:
            return False
        return True


def shape_of(schema: Any) -> Shape:
    """A Pydantic class gives its instances, a JSON Schema gives dicts. TypeError for others."""
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        written = _schemas.get(schema)
        if written is None:
            written = _schemas[schema] = schema.model_json_schema()
        return Shape(written, _pydantic(schema))
    if isinstance(schema, Mapping):
        return Shape(dict(schema), _jsonschema(schema))
    raise TypeError(f"schema is a Pydantic model class or a JSON Schema dict, not {schema!r:.80}")


def json_values(text: str) -> Iterator[Any]:
    """The JSON values in a text: it may be JSON, hold it in a code fence, or between prose."""
    try:
        yield json.loads(text, strict=False)
        return
    except (ValueError, RecursionError):
        pass
    for fenced in _FENCE.findall(text):
        try:
            yield json.loads(fenced, strict=False)
        except (ValueError, RecursionError):
            continue
    yield from _scanned(text)


def _scanned(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(MAX_CANDIDATES):
        starts = [found for found in (text.find("{", at), text.find("[", at)) if found >= 0]
        if not starts:
            return
        try:
            value, at = _DECODER.raw_decode(text, min(starts))
        except (ValueError, RecursionError):
            at = min(starts) + 1
        else:
            yield value


def _pydantic(model: Any) -> Callable[[Any], Any]:
    def validate(value: Any) -> Any:
        from pydantic import ValidationError

        try:
            return model.model_validate(value)
        except ValidationError as error:
            raise Misfit(faults_in(error)) from None

    return validate


def _jsonschema(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    with needs("structured"):
        from jsonschema import validators
        from jsonschema.exceptions import SchemaError
    kind = validators.validator_for(schema)
    try:
        kind.check_schema(dict(schema))
    except SchemaError as error:
        raise ValueError(f"this is no valid JSON Schema: {error.message:.200}") from None
    checker = kind(schema)

    def validate(value: Any) -> Any:
        found = [f"{_place(e.absolute_path)}: {e.message}" for e in checker.iter_errors(value)]
        if found:
            raise Misfit(found)
        return value

    return validate


def faults_in(error: Any, *path: str, whole: str = "the answer") -> list[str]:
    """What a Pydantic ValidationError found, one line each: the place, below `path`, and why.

    Without the input: it may be huge, and whoever reads this has just written it.
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [f"{_place((*path, *each['loc']), whole)}: {each['msg']}" for each in found]


def _place(path: Any, whole: str = "the answer") -> str:
    return ".".join(map(str, path)) or whole


def with_instruction(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """The messages with the schema told in words, for a model that cannot be held to it."""
    told = in_words(schema)
    if messages and messages[0].role == Role.SYSTEM:
        return [Message(Role.SYSTEM, f"{messages[0].text}\n\n{told}"), *messages[1:]]
    return [Message(Role.SYSTEM, told), *messages]


def in_words(schema: Mapping[str, Any]) -> str:
    """The instruction that asks for an answer of this schema."""
    return (
        "Answer with JSON alone, without any text around it, that fits this JSON Schema:\n"
        f"{json.dumps(schema, ensure_ascii=False)}"
    )


def fitting(
    request: Request,
    shape: Shape,
    max_attempts: int,
    ask: Ask,
    got: Callable[[LLMResponse], None],
) -> Flow[Any]:
    """The value that fits, asked for until it comes; `got` is told each response.

    StructuredOutputError when the last does not fit either.
    """
    asked = replace(request, schema=shape.schema)
    for _ in range(max_attempts):
        response = yield from ask(asked, lambda kept: shape.fits(kept.content))
        got(response)
        try:
            return shape.read(response.content)
        except Misfit as error:
            misfit = error
        asked = replace(asked, messages=(*asked.messages, *asked_again(response, misfit)))
    raise StructuredOutputError(
        f"the answer does not fit the schema after {max_attempts} attempts: {misfit}",
        raw=response.content,
        errors=misfit.errors,
        provider=response.provider,
        model=response.model,
        request_id=response.request_id,
    )


def asked_again(response: LLMResponse, misfit: Misfit) -> list[Message]:
    """What follows an answer that does not fit."""
    reasons = "\n".join(f"- {error}" for error in misfit.errors)
    if response.finish_reason == "length":
        reasons += f"\n- {CUT_OFF}"
    again = (
        f"This does not fit the schema:\n{reasons}\nAnswer again, with the corrected JSON alone."
    )
    answer = response.content or "(no text)"
    return [Message(Role.ASSISTANT, answer), Message(Role.USER, again)]
