"""Monitor: a store, and everything that writes into it or reads from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from pywrapai.core.extras import needs
from pywrapai.exceptions import ConfigurationError
from pywrapai_graph import GraphLLM
from pywrapai_monitor.db.base import BaseStore
from pywrapai_monitor.graph import MonitoredGraph

if TYPE_CHECKING:
    from pywrapai_monitor.dashboard.server import Server

DB_URL_ENV = "PYWRAPAI_DB_URL"


class Monitor:
    """Records conversations and calls. One Monitor serves any number of users and sessions.

    Give exactly one of `db_path` (SQLite, made if it is not there) and `store`.

    Raises:
        ValueError: both or neither were given.
        StoreError: the database cannot be opened.
    """

    def __init__(
        self, db_path: str | os.PathLike[str] | None = None, store: BaseStore | None = None
    ) -> None:
        if (db_path is None) == (store is None):
            raise ValueError("Monitor needs exactly one of db_path= and store=")
        self.store: BaseStore = _sqlite(db_path) if store is None else store

    @classmethod
    def from_env(cls) -> Self:
        """A Monitor on the database that PYWRAPAI_DB_URL names: a path or a sqlite:/// URL."""
        url = os.environ.get(DB_URL_ENV)
        if not url:
            raise ConfigurationError(
                f"{DB_URL_ENV} is not set: put the database's path or URL there, for example "
                "sqlite:///monitor.db"
            )
        scheme, found, _ = url.partition("://")
        if found and scheme != "sqlite":
            raise ConfigurationError(
                f"{DB_URL_ENV} names a {scheme!r} database, and sqlite is what there is a store for"
            )
        return cls(db_path=url)

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
                pinned to, or the active one.

        Raises:
            ValueError: an empty user_id or session_id, or a negative max_turns.
            KeyError: no such prompt.
        """
        if not isinstance(graph, GraphLLM):
            raise TypeError(f"wrap takes a GraphLLM, not {graph!r:.80}: GraphLLM(llm) makes one")
        for name, value in (("user_id", user_id), ("session_id", session_id)):
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{name} must be a text that says who or which, not {value!r}")
        if max_turns is not None and max_turns < 0:
            raise ValueError(f"max_turns must be 0 or more, or None for all, not {max_turns}")
        version = None
        if prompt_name is not None:
            pinned = self.store.get_user_prompt_version(user_id, prompt_name)
            version = pinned or self.store.active_prompt_version(prompt_name)
            graph = graph.with_system_prompt(self.store.get_prompt(prompt_name, version))
        return MonitoredGraph(
            graph,
            self.store,
            user_id=user_id,
            session_id=session_id,
            max_turns=max_turns,
            prompt_name=prompt_name,
            prompt_version=version,
        )

    def save_prompt(
        self, name: str, version: str, text: str | None = None, is_active: bool = False
    ) -> None:
        """Save a version of a prompt; without `text`, promote one that is there."""
        self.store.save_prompt(name, version, text, is_active)

    def get_prompt(self, name: str, version: str = "active") -> str:
        """The text of a version, by default the active one. KeyError if there is none."""
        return self.store.get_prompt(name, version)

    def set_user_prompt(self, user_id: str, prompt_name: str, prompt_version: str) -> None:
        """Pin a user to a version. KeyError if there is no such version."""
        self.store.set_user_prompt(user_id, prompt_name, prompt_version)

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
            auth_token: what `/api/*` then asks for as a Bearer token.
            host: anything but loopback needs an auth_token.
            tz: the time zone whose days are shown.
            block: False returns at once, with a handle that has `.url` and `.stop()`.

        Raises:
            ValueError: a host that others can reach, and no auth_token.
            ConfigurationError: the port is taken.
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
        )

    def close(self) -> None:
        """Give back the database."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _sqlite(db_path: str | os.PathLike[str] | None) -> BaseStore:
    with needs("monitor"):
        from pywrapai_monitor.db.sqlite import SQLiteStore
    return SQLiteStore(os.fspath(db_path or ""))
