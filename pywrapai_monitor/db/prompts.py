"""The prompt registry: versions of named prompts, the active one of each, and users' pins."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, update

from pywrapai_monitor.db.batch import Columns, Upsert
from pywrapai_monitor.db.tables import system_prompts, user_settings

ACTIVE = "active"

_prompt, _setting = system_prompts.c, user_settings.c

_VERSION = (_prompt.name == bindparam("of_name"), _prompt.version == bindparam("of_version"))
_FIND = select(_prompt.text).where(*_VERSION)
_FIND_ACTIVE = select(_prompt.text).where(_prompt.name == bindparam("of_name"), _prompt.is_active)
_FIND_ACTIVE_VERSION = select(_prompt.version).where(
    _prompt.name == bindparam("of_name"), _prompt.is_active
)
# Two that promote at once lock all versions first, in one order, and so never each other out.
_LOCK = (
    select(_prompt.id)
    .where(_prompt.name == bindparam("of_name"))
    .order_by(_prompt.id)
    .with_for_update()
)
_DEMOTE = (
    update(system_prompts)
    .where(_prompt.name == bindparam("of_name"), _prompt.version != bindparam("of_version"))
    .values(is_active=False)
)
_PROMOTE = update(system_prompts).where(*_VERSION).values(is_active=True)
_PINNED = select(_setting.prompt_version).where(
    _setting.user_id == bindparam("of_user"), _setting.prompt_name == bindparam("of_name")
)


class Prompts:
    """The registry in one SQL dialect."""

    def __init__(self, upsert: Upsert) -> None:
        self._save = upsert(system_prompts, ("name", "version"), _replace_text)
        self._pin = upsert(user_settings, ("user_id", "prompt_name"), _replace_pin)

    def save(
        self, conn: Connection, name: str, version: str, text: str | None, promote: bool, at: int
    ) -> None:
        """Make a version or give it another text, and promote it if asked to.

        An active version stays active. KeyError if there is neither a text nor the version.
        """
        of = {"of_name": name, "of_version": version}
        conn.execute(_LOCK, of)
        if text is None:
            require(conn, name, version)
        else:
            row = {"name": name, "version": version, "text": text, "is_active": False}
            conn.execute(self._save, {**row, "created_at": at, "updated_at": at})
        if promote:
            conn.execute(_DEMOTE, of)
            conn.execute(_PROMOTE, of)

    def pin(self, conn: Connection, user_id: str, name: str, version: str, at: int) -> None:
        """Pin a user to a version. KeyError if there is none such."""
        require(conn, name, version)
        row = {"user_id": user_id, "prompt_name": name, "prompt_version": version}
        conn.execute(self._pin, {**row, "updated_at": at})


def require(conn: Connection, name: str, version: str) -> str:
    """The text of a version, or of the active one. KeyError if there is none."""
    if version == ACTIVE:
        found = conn.execute(_FIND_ACTIVE, {"of_name": name}).scalar()
    else:
        found = conn.execute(_FIND, {"of_name": name, "of_version": version}).scalar()
    if found is None:
        raise KeyError(f"no version {version!r} of prompt {name!r}: save it with save_prompt first")
    return str(found)


def active_version(conn: Connection, name: str) -> str:
    """Which version is the active one. KeyError if none is."""
    version: str | None = conn.execute(_FIND_ACTIVE_VERSION, {"of_name": name}).scalar()
    if version is None:
        raise KeyError(f"no version of prompt {name!r} is active: promote one with save_prompt")
    return version


def pinned(conn: Connection, user_id: str, name: str) -> str | None:
    """The version that a user is pinned to."""
    version: str | None = conn.execute(_PINNED, {"of_user": user_id, "of_name": name}).scalar()
    return version


def _replace_text(old: Columns, new: Columns) -> dict[str, object]:
    return {"text": new["text"], "updated_at": new["updated_at"]}


def _replace_pin(old: Columns, new: Columns) -> dict[str, object]:
    return {"prompt_version": new["prompt_version"], "updated_at": new["updated_at"]}
