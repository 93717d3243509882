"""What the pages of the dashboard ask of a store, beyond its nineteen methods.

Every answer is bounded: by a number of rows, by how much of each text is shown, and in a search by
how many rows are looked at. So it costs about the same in a database of any size.

Times go in as microseconds since 1970 and come out as ISO 8601 strings in UTC. Money is USD as
float, durations are milliseconds. A "call" is a token record of kind "chat", whatever its status;
costs and tokens are those of embeddings, too. Latency is that of calls that were not answered from
the response cache; percentiles are None where there is none, or where a store cannot tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pywrapai_monitor.db.base import Row

Body: TypeAlias = Literal[
    "content", "system_prompt", "arguments", "result", "error", "error_message", "partial"
]
BodyTable: TypeAlias = Literal["conversations", "tool_calls", "token_records"]
BODIES: Mapping[str, Sequence[str]] = {
    "conversations": ("content", "system_prompt"),
    "tool_calls": ("arguments", "result", "error"),
    "token_records": ("error_message", "partial"),
}
"""The texts that may be long: each BodyTable, and which Body it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From `since`, included, to `until`, excluded; None is without an end.

    Sums are kept by the quarter of an hour, which the ends should be multiples of.
    """

    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which token records: those that agree with whatever is given."""

    span: Span = field(default_factory=Span)
    user_id: str | None = None
    session_id: str | None = None
    model: str | None = None
    kind: str | None = None
    status: str | None = None
    prompt_name: str | None = None
    prompt_version: str | None = None
    tag: str | None = None
    unpriced: bool = False
    """Those alone whose price is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions: those with rows in `span` that agree with whatever is given."""

    span: Span = field(default_factory=Span)
    user_id: str | None = None
    text: str | None = None
    """In the session's or the user's id, or in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows of a list, and where it goes on."""

    rows: list[Row]
    next: str | None = None
    """The `cursor` of the rows that follow; None at the end."""
    searched_to: str | None = None
    """Where a search has stopped looking before the page was full, at this time; `next` goes on."""


def check_body(table: str, name: str) -> None:
    """ValueError if no table has such a text."""
    if name not in BODIES.get(table, ()):
        known = ", ".join(f"{t}.{n}" for t, names in BODIES.items() for n in names)
        raise ValueError(f"there is no text {table}.{name}: known are {known}")


class Analytics(ABC):
    """Figures, lists and details of what a store holds.

    A `cursor` is what the page before said in `next`; ValueError for anything else. `cut` is how
    many characters of each text are given; `<name>_length` beside it says how many there are.
    """

    @abstractmethod
    def figures(self, span: Span) -> Row:
        """`calls`, `errors`, `cached_calls`, `unpriced_calls`, `embeddings`, `cost_usd`,
        `input_tokens`, `output_tokens`, `cache_read_tokens`, `cache_write_tokens`,
        `reasoning_tokens`, `total_tokens`, `users`, `sessions`, `avg_duration_ms`, `p50_ms`,
        `p95_ms`, `p99_ms`.
        """

    @abstractmethod
    def series(self, bounds: Sequence[int]) -> list[Row]:
        """Per step between two of these ascending times: what `figures` has but for `users` and
        `sessions`, and `models`, a list of `model`, `provider`, `calls`, `errors`, `cost_usd`
        (embeddings included), dearest first.
        """

    @abstractmethod
    def models(self, span: Span) -> list[Row]:
        """Per model and kind of record, dearest first: `model`, `provider`, `kind`, `calls` (the
        records of that kind), `errors`, `unpriced_calls`, `cached_calls`, the five kinds of tokens,
        `cost_usd`, `avg_duration_ms`.
        """

    @abstractmethod
    def users(self, span: Span, limit: int, cursor: str | None = None) -> Page:
        """Per user with token records in `span`, dearest first: `user_id`, `calls`, `errors`,
        `total_tokens`, `cost_usd` in that time.
        """

    @abstractmethod
    def tools(self, span: Span) -> list[Row]:
        """Per tool, most used first: `tool_name`, `calls`, `successes`, `errors`,
        `avg_duration_ms`.
        """

    @abstractmethod
    def calls(self, wanted: CallFilter, limit: int, cursor: str | None = None) -> Page:
        """Token records, newest first: TokenRecord's fields with `id` and `created_at`, without
        `partial` and `metadata`; `error_message` is cut after 300 characters.
        """

    @abstractmethod
    def call(self, call_id: str, cut: int) -> Row:
        """One token record with all fields, `error_message` and `partial` cut, and what belongs to
        it: `messages`, its rows of the conversation as `messages` gives them; `tools` as
        `tool_calls` gives them; `feedback`, a row or None. KeyError if there is none.
        """

    @abstractmethod
    def sessions(self, wanted: SessionFilter, limit: int, cursor: str | None = None) -> Page:
        """Sessions, last used first: what `BaseStore.get_sessions` gives, of all time. With
        `text`, also `message_id` and `excerpt`, at most 160 characters around the newest place
        where a message has it; both are None where an id has it.
        """

    @abstractmethod
    def session(self, user_id: str, session_id: str) -> Row:
        """The totals of one session, as in `sessions`. KeyError if there is none."""

    @abstractmethod
    def messages(
        self,
        user_id: str,
        session_id: str,
        limit: int,
        cut: int,
        *,
        before: int | None = None,
        after: int | None = None,
    ) -> list[Row]:
        """Rows of one session in the order of writing, at most `limit`: those before or after the
        row of an id, or the newest: `id`, `created_at`, `role`, `status`, `call_id`,
        `history_count`, `content`, `content_length`.
        """

    @abstractmethod
    def message(self, message_id: int, cut: int) -> Row:
        """One row of a conversation with all fields, texts cut: also `user_id`, `session_id`,
        `system_prompt`, `system_prompt_length`, `rag_context`, a list of `text`, `text_length`,
        `score`, `doc_id`, `metadata`, or None. KeyError if there is none.
        """

    @abstractmethod
    def history_of(self, message_id: int, cut: int) -> list[Row]:
        """The messages of the turns that were sent with a user's message as its history, oldest
        first, as in `messages`: as many turns as its `history_count` says.
        """

    @abstractmethod
    def tool_calls(self, call_id: str, cut: int) -> list[Row]:
        """The tool calls that one model call asked for, in their order: `id`, `tool_name`,
        `tool_call_id`, `turn_num`, `status`, `created_at`, `duration_ms`, and `arguments` (JSON
        text), `result`, `error`, cut.
        """

    @abstractmethod
    def body(self, table: BodyTable, row_id: int, name: Body) -> str | None:
        """A whole text. KeyError if there is no such row, ValueError if no such column."""

    @abstractmethod
    def prompt_versions(self, name: str, span: Span) -> list[Row]:
        """Per version with calls in `span`: `version`, `calls`, `errors`, `cost_usd`,
        `avg_duration_ms`, and `p95_ms` of its newest 1,000 calls.
        """

    @abstractmethod
    def pins(self, name: str, limit: int, cursor: str | None = None) -> Page:
        """The users who are pinned to a version of a prompt: `user_id`, `version`, `updated_at`."""

    @abstractmethod
    def prompt_text(self, name: str, version: str) -> str:
        """The text of a version. KeyError if there is none."""

    @abstractmethod
    def about(self) -> Row:
        """`database` (its product and version), `schema_version`, `size_bytes`; None where a store
        cannot tell at once. StoreError if it cannot be read.
        """
