"""The contract of a store: nineteen methods, no SQL. What Monitor and the dashboard stand on.

Write these for DynamoDB, MongoDB or a dict, and everything above works with it. All are
synchronous and may be called from many threads at once. Money is USD as float, durations are
milliseconds, times are ISO 8601 strings in UTC ("2026-11-30T18:00:00.000000Z").

A "call" is a token record of kind "chat", whatever its status; `errors`, `unpriced_calls` and
`avg_duration_ms` are those of calls, while costs and tokens are those of embeddings, too. A session
counts from its first message or token record on, and a user from the first session on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pywrapai.exceptions import PyWrapAIError

if TYPE_CHECKING:
    from pywrapai import Message, ToolCall, ToolResult
    from pywrapai_monitor.db.analytics import Analytics

Status: TypeAlias = Literal["ok", "error", "interrupted", "cancelled"]
Row: TypeAlias = dict[str, Any]
_MOST = float_info.max


class StoreError(PyWrapAIError):
    """The database cannot be opened, read or written; its own error is the `__cause__`.

    `retryable` where the database is out of reach or cannot write now (full, read-only, locked,
    damaged), so that the same may succeed later; not where it refused what it was given.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """One row of `conversations`."""

    user_id: str
    session_id: str
    role: Literal["user", "assistant", "tool_call", "tool_result"]
    content: str
    rag_context: list[dict[str, Any]] | None = None
    """On user rows: the chunks sent, each `{"text", "score", "doc_id", "metadata"}`."""
    system_prompt: str | None = None
    """On user rows: the system prompt at the time of the call."""
    history_count: int | None = None
    """On user rows: how many turns of history were sent."""
    status: Status = "ok"
    """"interrupted" on an answer whose reader left before its end."""
    call_id: str | None = None
    """Of the model call that the row belongs to: `TokenRecord.call_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """One row of `token_records`: one model call, also one that failed."""

    user_id: str
    session_id: str
    model: str
    provider: str = ""
    kind: Literal["chat", "embedding"] = "chat"
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0
    priced: bool = True
    cached: bool = False
    """Answered from the response cache; costs 0."""
    duration_ms: float = 0.0
    ttft_ms: float | None = None
    """Time to the first chunk, for streams."""
    status: Status = "ok"
    error_type: str | None = None
    error_message: str | None = None
    partial: str | None = None
    """What had arrived of a stream that the server broke; never part of the history."""
    request_id: str | None = None
    """The provider's id; may repeat or be missing."""
    prompt_name: str | None = None
    prompt_version: str | None = None
    call_id: str | None = None
    """Our own id of the call, never two of one; what feedback is given to."""
    finish_reason: str | None = None
    tags: tuple[str, ...] = ()
    """What the caller gave with the call, to find it by."""
    metadata: dict[str, Any] | None = None
    """What the caller gave with the call, JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep:
    """The tool calls of one agent turn, with what came of them."""

    user_id: str
    session_id: str
    turn_num: int
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    """Matched to the calls by their ids."""
    durations_ms: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """All rows of one model call. They are kept together or not at all, and once."""

    token: TokenRecord
    """Has a `call_id`, by which a store knows an entry that it has already."""
    messages: tuple[MessageRecord, ...] = ()
    """Rows of the conversation, in their order."""
    tools: ToolStep | None = None
    at: int
    """When it was, in microseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What somebody thought of an answer. ValueError and TypeError for what cannot be that."""

    call_id: str
    score: float
    comment: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.call_id, str) or not self.call_id:
            raise ValueError(f"call_id must be that of a response, not {self.call_id!r:.80}")
        if not isinstance(self.score, Real) or not -_MOST <= self.score <= _MOST:
            raise ValueError(
                f"score must be a number, and {self.score!r:.80} is none to compare with"
            )
        if not isinstance(self.comment, str | None):
            raise TypeError(f"comment must be a text or None, not {self.comment!r:.80}")


class BaseStore(ABC):
    """Where conversations, token records, tool calls, prompts and user settings are kept."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group this thread's writes: all are kept or none. A store may leave this out."""
        yield

    def write(self, entries: Sequence[Entry], *, replayed: bool = False) -> None:
        """Save entries in their order. A store may leave this out.

        `replayed` says that some of them may be there already, by their `call_id`: those must not
        be saved twice. A store that cannot tell saves them again.
        """
        for entry in entries:
            with self.transaction():
                for message in entry.messages:
                    self.save_message(message)
                self.save_token_record(entry.token)
                if (step := entry.tools) is not None:
                    self.save_tool_step(
                        step.user_id,
                        step.session_id,
                        step.turn_num,
                        step.calls,
                        step.results,
                        step.durations_ms,
                    )

    def close(self) -> None:  # noqa: B027  # optional for a store, so not abstract
        """Give back connections. A store may leave this out."""

    @property
    def location(self) -> str | None:
        """The path or the URL of the database, without a password; None where it has none. By it
        records that wait are told from those of other databases. A store may leave this out.
        """
        return None

    def analytics(self) -> Analytics:
        """What the pages of the dashboard read. A store may leave this out, and they then make do
        with its other methods.
        """
        plain = import_module("pywrapai_monitor.db.plain_analytics")  # which knows this module
        made: Analytics = plain.PlainAnalytics(self)
        return made

    # What a store may leave out: it then has no feedback, no lists, no deletion, no export

    def save_feedback(self, feedback: Feedback) -> None:
        """Keep what was thought of a call; given again, it replaces."""
        raise self._cannot("keep feedback")

    def get_feedback(self, user_id: str | None = None, session_id: str | None = None) -> list[Row]:
        """Newest first: `call_id`, `score`, `comment`, `created_at`, and of the call `user_id`,
        `session_id`, `model`, `prompt_name`, `prompt_version`.
        """
        raise self._cannot("list feedback")

    def list_prompts(self) -> list[Row]:
        """Per prompt, by name: `name`, `active` (a version or None), `versions` (how many),
        `updated_at`.
        """
        raise self._cannot("list prompts")

    def list_prompt_versions(self, name: str) -> list[Row]:
        """Per version, oldest first: `version`, `is_active`, `created_at`, `updated_at`,
        `activated_at`, `characters`, `pinned_users` (how many). KeyError if there is none.
        """
        raise self._cannot("list versions of prompts")

    def rollback_prompt(self, name: str) -> str:
        """Make the version active that was so before the active one; says which. Again, it goes
        further back. KeyError if there is none before.
        """
        raise self._cannot("roll back prompts")

    def unpin_user_prompt(self, user_id: str, prompt_name: str) -> None:
        """Let a user have the active version again; no error if there is no pin."""
        raise self._cannot("unpin prompts")

    def delete_session(self, user_id: str, session_id: str) -> int:
        """Delete all rows of one session, totals included; says how many rows."""
        raise self._cannot("delete sessions")

    def delete_user(self, user_id: str) -> int:
        """Delete all rows of one user, pins and totals included; says how many rows."""
        raise self._cannot("delete users")

    def export_rows(
        self,
        table: str,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[Row]:
        """Every row of "conversations", "token_records", "tool_calls" or "feedback" in the order of
        writing, `since` included and `until` excluded (ISO 8601). Reads page by page.
        """
        raise self._cannot("export")

    def _cannot(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} cannot {what}")

    # Writes

    @abstractmethod
    def save_message(self, record: MessageRecord) -> None:
        """Append one row to a conversation."""

    @abstractmethod
    def save_token_record(self, record: TokenRecord) -> None:
        """Append one model call."""

    @abstractmethod
    def save_tool_step(
        self,
        user_id: str,
        session_id: str,
        turn_num: int,
        calls: Sequence[ToolCall],
        results: Sequence[ToolResult],
        durations_ms: Sequence[float | None] = (),
    ) -> None:
        """Append one row per tool call of one agent turn; results are matched by call id."""

    # Reads

    @abstractmethod
    def load_history(
        self, user_id: str, session_id: str, max_turns: int | None = 20
    ) -> list[Message]:
        """The newest `max_turns` turns, oldest first: USER and ASSISTANT messages alone.

        A turn is a user message and its answer. None loads all, 0 nothing.
        """

    @abstractmethod
    def get_session_token_records(self, user_id: str, session_id: str) -> list[Row]:
        """Every token record of one session in the order of writing, as TokenRecord's fields
        with `id` and `created_at`.
        """

    # Prompt registry

    @abstractmethod
    def save_prompt(
        self, name: str, version: str, text: str | None = None, is_active: bool = False
    ) -> None:
        """Save or replace a version; `is_active` makes it the only active one of its name.

        `text=None` promotes a version that is there. KeyError if it is not, ValueError for an
        empty name or version, and for a version called "active".
        """

    @abstractmethod
    def get_prompt(self, name: str, version: str = "active") -> str:
        """The text of a version; "active" is the promoted one. KeyError if there is none."""

    def active_prompt_version(self, name: str) -> str:
        """Which version "active" means now; KeyError if none does. A store may leave this out, and
        its records then say "active".
        """
        return "active"

    @abstractmethod
    def set_user_prompt(self, user_id: str, prompt_name: str, prompt_version: str) -> None:
        """Pin a user to a version. KeyError if there is none such, ValueError for "active"."""

    @abstractmethod
    def get_user_prompt_version(self, user_id: str, prompt_name: str) -> str | None:
        """The version that a user is pinned to, if any."""

    # Dashboard queries

    @abstractmethod
    def get_overview(self) -> Row:
        """Of all time: `calls`, `errors`, `unpriced_calls`, `embeddings`, `cost_usd` (embeddings
        included), `input_tokens`, `output_tokens`, `total_tokens`, `users`, `sessions`,
        `avg_duration_ms`, `first_at`, `last_at` (None where there is nothing yet).
        """

    @abstractmethod
    def get_today(self, tz: str = "UTC") -> Row:
        """The same keys as `get_overview` since midnight in `tz`."""

    @abstractmethod
    def get_cost_over_time(self, days: int = 7, tz: str = "UTC") -> list[Row]:
        """The last `days` days in `tz`, today included, oldest first and none left out:
        `date` ("2026-11-30"), `calls`, `cost_usd`, `input_tokens`, `output_tokens`.
        """

    @abstractmethod
    def get_model_usage(self) -> list[Row]:
        """Per model and kind of record, dearest first: `model`, `provider`, `kind`, `calls` (the
        records of that kind), `errors`, `input_tokens`, `output_tokens`, `cost_usd`,
        `avg_duration_ms`, `unpriced_calls`.
        """

    @abstractmethod
    def get_users(self) -> list[Row]:
        """Per user, dearest first: `user_id`, `sessions`, `calls`, `errors`, `total_tokens`,
        `cost_usd`, `last_at`.
        """

    @abstractmethod
    def get_sessions(self, user_id: str | None = None) -> list[Row]:
        """Per session, newest first: `user_id`, `session_id`, `calls`, `errors`, `turns`,
        `total_tokens`, `cost_usd`, `first_at`, `last_at`.
        """

    @abstractmethod
    def get_recent_queries(self, limit: int = 20) -> list[Row]:
        """The newest token records, newest first, in the form of `get_session_token_records`."""

    @abstractmethod
    def get_conversation(self, user_id: str, session_id: str) -> list[Row]:
        """Every row of one session in the order of writing, tool rows included, as
        MessageRecord's fields with `id` and `created_at`.
        """

    @abstractmethod
    def get_tool_usage(self, user_id: str | None = None) -> list[Row]:
        """Per tool, most used first: `tool_name`, `calls`, `successes`, `errors`,
        `avg_duration_ms`.
        """

    # Maintenance

    @abstractmethod
    def purge_before(self, days: int) -> int:
        """Delete conversations, token records and tool calls older than `days` days.

        Returns how many rows went. ValueError if `days` is below 1.
        """
