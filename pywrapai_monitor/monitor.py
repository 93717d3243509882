"""Monitor: a store, and everything that writes into it or reads from it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TextIO

from pywrapai.core import flow
from pywrapai.core.extras import needs
from pywrapai.core.flow import blocking
from pywrapai.embedder import Embedder
from pywrapai.exceptions import ConfigurationError
from pywrapai_graph import AgentConfig, GraphLLM, ToolRegistry
from pywrapai_monitor.agent import MonitoredAgent
from pywrapai_monitor.conversation import Conversation
from pywrapai_monitor.db.base import BaseStore, Feedback, Row
from pywrapai_monitor.embedding_costs import embedding_entries
from pywrapai_monitor.export import export
from pywrapai_monitor.graph import MonitoredGraph
from pywrapai_monitor.privacy import Mask, Privacy
from pywrapai_monitor.prompts import Prompts
from pywrapai_monitor.recorder import FlushReport, Recorder
from pywrapai_monitor.spool_files import spool_dir_of

if TYPE_CHECKING:
    from pywrapai_monitor.dashboard.server import Server
    from pywrapai_monitor.tracing import Tracing

DB_URL_ENV = "PYWRAPAI_DB_URL"


class Monitor:
    """Records conversations and calls. One Monitor serves any number of users and sessions.

    Args:
        db_path: a path of an SQLite database, made if it is not there, or a database's URL.
        store: a store instead. Exactly one of the two is given.
        mask: called with each text before it is kept anywhere, and returns what is kept instead.
            Where it raises, "[mask failed]" is kept.
        store_content: False keeps numbers, names and times alone, and no text that was said.
        tracing: makes an OpenTelemetry span for each call, too.
        spool_dir: where records wait while the database is away; by default beside an SQLite
            database, and in the user's state directory for others.

    Raises:
        ValueError: both or neither were given.
        TypeError: `store` is no store, `mask` no plain function, or `store_content` no bool.
        ConfigurationError: there is no store for URLs of this scheme.
        StoreError: the database cannot be opened.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] | None = None,
        store: BaseStore | None = None,
        *,
        mask: Mask | None = None,
        store_content: bool = True,
        tracing: Tracing | None = None,
        spool_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        if (db_path is None) == (store is None):
            raise ValueError("Monitor needs exactly one of db_path= and store=")
        if not isinstance(store, BaseStore | None):
            raise TypeError(
                f"store= takes a store such as SQLiteStore(path), not {store!r:.80}: "
                "db_path= takes a path or a URL"
            )
        self.privacy = Privacy(mask, store_content)
        self.tracing = tracing
        self.store: BaseStore = _store(db_path or "") if store is None else store
        self.recorder = Recorder(self.store, spool_dir or spool_dir_of(self.store))
        self._prompts = Prompts(self.store)

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """A Monitor on the database that PYWRAPAI_DB_URL names, by its URL or path.

        `options` are those of Monitor. Raises ConfigurationError if the variable is not set, or its
        scheme is unknown.
        """
        url = os.environ.get(DB_URL_ENV, "")
        if not url.strip():
            raise ConfigurationError(
                f"{DB_URL_ENV} is not set: put the database's path or URL there, for example "
                "sqlite:///monitor.db or postgresql://user:password@host/name"
            )
        return cls(store=_store(url), **options)

    def wrap(
        self,
        graph: GraphLLM,
        user_id: str,
        session_id: str,
        max_turns: int | None = 20,
        prompt_name: str | None = None,
    ) -> MonitoredGraph:
        """The graph, for one conversation, with its history and with every call recorded.

        Args:
            graph: what to call; it is not changed.
            user_id: who is talking.
            session_id: which of the user's conversations.
            max_turns: how many past turns to send; None is all, 0 none.
            prompt_name: take the system prompt from the registry: the version that the user is
                pinned to, or the active one; while the database is away, as `get_prompt` says.

        Raises:
            TypeError: `graph` is no GraphLLM.
            ValueError: an empty user_id or session_id, or a negative max_turns.
            KeyError: no such prompt.
        """
        _check(graph, user_id, session_id, "max_turns", max_turns)
        version = None
        if prompt_name is not None:
            text, version = self._prompts.of_user(user_id, prompt_name)
            graph = graph.with_system_prompt(text)
        conversation = self._conversation(user_id, session_id, max_turns)
        named = replace(conversation, prompt_name=prompt_name, prompt_version=version)
        return MonitoredGraph(graph, named)

    def wrap_agent(
        self,
        graph: GraphLLM,
        registry: ToolRegistry,
        user_id: str,
        session_id: str,
        config: AgentConfig | None = None,
        max_history: int | None = 20,
    ) -> MonitoredAgent:
        """An agent for one conversation, with its history and with every step recorded.

        `max_history` is how many past turns to send, as `max_turns` of `wrap`, which also says what
        is raised.
        """
        _check(graph, user_id, session_id, "max_history", max_history)
        conversation = self._conversation(user_id, session_id, max_history)
        return MonitoredAgent(graph, registry, conversation, config)

    def record_embedding_build(
        self, embedder: Embedder, user_id: str = "system", session_id: str = "embedding-build"
    ) -> None:
        """Record what an embedder has cost until now, and was not recorded for a call.

        TypeError for what embeds nothing, as a retriever.
        """
        if not hasattr(embedder, "embed"):
            raise TypeError(f"record_embedding_build takes an Embedder, not {embedder!r:.80}")
        at = time.time_ns() // 1000
        for entry in embedding_entries([embedder], user_id=user_id, session_id=session_id, at=at):
            self.recorder.write(entry)

    def feedback(self, call_id: str, score: float, comment: str | None = None) -> None:
        """Keep what was thought of an answer, by its response's `call_id`.

        ValueError if that is none, or the score is no number.
        """
        given = Feedback(call_id=call_id, score=score, comment=comment)
        self.store.save_feedback(self.privacy.feedback(given))

    async def afeedback(self, call_id: str, score: float, comment: str | None = None) -> None:
        """`feedback`, awaited."""
        await flow.arun(blocking(self.feedback, call_id, score, comment))

    def get_feedback(self, user_id: str | None = None, session_id: str | None = None) -> list[Row]:
        """What was thought of answers, newest first, each with its call."""
        return self.store.get_feedback(user_id, session_id)

    def flush(self, timeout: float | None = None) -> FlushReport:
        """Wait until everything is in the database, for at most `timeout` seconds.

        Says how many records were written, wait in the spool, and were lost; true only if none is
        outside of the database.
        """
        return self.recorder.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> FlushReport:
        """`flush`, awaited."""
        return await flow.arun(blocking(self.recorder.flush, timeout))

    def _conversation(self, user_id: str, session_id: str, max_turns: int | None) -> Conversation:
        return Conversation(
            store=self.store,
            recorder=self.recorder,
            user_id=user_id,
            session_id=session_id,
            max_turns=max_turns,
            privacy=self.privacy,
            tracing=self.tracing,
        )

    # Prompts

    def save_prompt(
        self, name: str, version: str, text: str | None = None, is_active: bool = False
    ) -> None:
        """Save a version of a prompt; without `text`, promote one that is there, or KeyError.

        The text is kept as it is, whatever the mask: it is what the model will be given.
        """
        self.store.save_prompt(name, version, text, is_active)

    def get_prompt(self, name: str, version: str = "active") -> str:
        """The text of a version, by default the active one. KeyError if there is none.

        While the database is away this is what was last read, and a warning is logged; StoreError
        if that version was not read before.
        """
        return self._prompts.text(name, version)

    def set_user_prompt(self, user_id: str, prompt_name: str, prompt_version: str) -> None:
        """Pin a user to a version. KeyError if there is no such version."""
        self.store.set_user_prompt(user_id, prompt_name, prompt_version)

    def unpin_user_prompt(self, user_id: str, prompt_name: str) -> None:
        """Give a user the active version again."""
        self.store.unpin_user_prompt(user_id, prompt_name)

    def list_prompts(self) -> list[Row]:
        """Every prompt with its active version, as `BaseStore.list_prompts` says."""
        return self.store.list_prompts()

    def list_prompt_versions(self, name: str) -> list[Row]:
        """Every version of a prompt, as `BaseStore.list_prompt_versions` says."""
        return self.store.list_prompt_versions(name)

    def rollback_prompt(self, name: str) -> str:
        """Make the version active that was so before; says which. KeyError if there is none."""
        return self.store.rollback_prompt(name)

    def diff_prompt(self, name: str, old: str, new: str = "active") -> str:
        """What changed between two versions, as a unified diff; empty if nothing did.

        KeyError if there is no such version.
        """
        from pywrapai_monitor.versions import diff

        return diff(self.store, name, old, new)

    # What is kept

    def get_tool_usage(self, user_id: str | None = None) -> list[Row]:
        """How often each tool was called, and failed; most used first."""
        return self.store.get_tool_usage(user_id)

    def purge_before(self, days: int) -> int:
        """Delete what is older than so many days; says how many rows. ValueError below 1."""
        return self.store.purge_before(days)

    def delete_session(self, user_id: str, session_id: str) -> int:
        """Delete everything of one session, also what waits to be written; says how many rows."""
        self.recorder.settle_all()
        return self.store.delete_session(user_id, session_id)

    def delete_user(self, user_id: str) -> int:
        """Delete everything of one user, also what waits to be written; says how many rows."""
        self.recorder.settle_all()
        return self.store.delete_user(user_id)

    def export(self, table: str, file: TextIO, **which: Any) -> int:
        """Write the rows of a table as JSON lines or CSV, as `pywrapai_monitor.export` says."""
        return export(self.store, table, file, **which)

    def serve(
        self,
        port: int = 8080,
        open_browser: bool = False,
        auth_token: str | None = None,
        host: str = "127.0.0.1",
        tz: str = "UTC",
        block: bool = True,
    ) -> Server:
        """Serve the dashboard until Ctrl-C, or in the background with `block=False`.

        Args:
            port: 0 picks a free one; the handle's `.url` says which.
            open_browser: show it.
            auth_token: what pages then ask for in a form, and `/api/*` as a Bearer token.
            host: anything but loopback needs an auth_token.
            tz: the time zone whose days are shown.
            block: False returns at once, with a handle that has `.url` and `.stop()`.

        Raises:
            ValueError: a host that others can reach, and no auth_token; or a port, token or time
                zone that is none.
            ConfigurationError: nothing can listen there, as the port is taken.
        """
        with needs("monitor"):
            from pywrapai_monitor.dashboard.server import serve
        return serve(
            self.store,
            host=host,
            port=port,
            auth_token=auth_token,
            open_browser=open_browser,
            block=block,
            tz=tz,
            counts=self.recorder.counts,
        )

    def close(self) -> None:
        """Write what waits, for at most ten seconds, and give back the database.

        What is not written then is left in the spool, which the next Monitor replays.
        """
        self.recorder.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _check(graph: object, user_id: str, session_id: str, name: str, turns: int | None) -> None:
    if not isinstance(graph, GraphLLM):
        raise TypeError(f"graph must be a GraphLLM, not {graph!r:.80}: GraphLLM(llm) makes one")
    for which, value in (("user_id", user_id), ("session_id", session_id)):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{which} must be a text that says who or which, not {value!r}")
    if turns is not None and (isinstance(turns, bool) or not isinstance(turns, int) or turns < 0):
        raise ValueError(f"{name} must be a whole number from 0 on, or None for all, not {turns!r}")


def _store(url: str | os.PathLike[str]) -> BaseStore:
    with needs("monitor"):
        from pywrapai_monitor.db.urls import store_from_url
    return store_from_url(url)
