"""PromptTemplate: a text with named places, none of which is forgotten or filled by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from string import Formatter


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A text in which `{name}` stands for a value; `{{` and `}}` are braces.

    Values go in as they are, as `str` has them: what looks like a place in a value is none.
    ValueError for braces that are no place: `{}`, `{0}`, `{user.name}`, `{price:.2f}`, JSON.
    """

    text: str
    variables: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The names, each once, in the order of the text."""
    _parts: tuple[tuple[str, str | None], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"a template is a str, not {type(self.text).__name__}")
        parts = tuple(_parts_of(self.text))
        names = dict.fromkeys(name for _, name in parts if name is not None)
        object.__setattr__(self, "variables", tuple(names))
        object.__setattr__(self, "_parts", parts)

    def format(self, /, **values: object) -> str:
        """The text with these values. KeyError for one that is missing, ValueError for one that
        has no place.
        """
        if unknown := [name for name in values if name not in self.variables]:
            raise ValueError(
                f"the template has no place for {', '.join(unknown)}: it has {self._names()}"
            )
        if missing := [name for name in self.variables if name not in values]:
            raise KeyError(f"{', '.join(missing)}: the template needs a value for {self._names()}")
        return "".join(
            words if name is None else f"{words}{values[name]!s}" for words, name in self._parts
        )

    def _names(self) -> str:
        return ", ".join(self.variables) or "no places"


def _parts_of(text: str) -> Iterator[tuple[str, str | None]]:
    """Words, and the name of the place after them, if there is one."""
    try:
        for words, name, spec, conversion in Formatter().parse(text):
            if name is not None and (spec or conversion or not name.isidentifier()):
                raise ValueError(f"{{{name}}} is no name")
            yield words, name
    except ValueError as error:
        raise ValueError(
            f"{text!r:.80} cannot be read as a template: {error}; a place is {{name}}, and a brace "
            "that is to be sent is written twice: {{ or }}"
        ) from None
