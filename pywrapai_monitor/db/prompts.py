"""The prompt registry: versions of named prompts, the active one of each, and users' pins."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, case, delete, func, select, update

from pywrapai_monitor.db import codec
from pywrapai_monitor.db.base import Row
from pywrapai_monitor.db.batch import Upsert
from pywrapai_monitor.db.tables import system_prompts, user_settings
from pywrapai_monitor.db.totals import Columns

ACTIVE = "active"

_prompt, _setting = system_prompts.c, user_settings.c

_OF_NAME = _prompt.name == bindparam("of_name")
_VERSION = (_OF_NAME, _prompt.version == bindparam("of_version"))
_FIND = select(_prompt.text).where(*_VERSION)
_FIND_ACTIVE_VERSION = select(_prompt.version).where(_OF_NAME, _prompt.is_active)
# Two that promote at once lock all versions first, in one order, and so never each other out.
_LOCK = select(_prompt.id).where(_OF_NAME).order_by(_prompt.id).with_for_update()
_LAST_PROMOTION = select(func.max(_prompt.activated_at)).where(_OF_NAME)
_DEMOTE = (
    update(system_prompts)
    .where(_OF_NAME, _prompt.version != bindparam("of_version"))
    .values(is_active=False)
)
_PROMOTE = (
    update(system_prompts)
    .where(*_VERSION, ~_prompt.is_active)
    .values(is_active=True, activated_at=bindparam("at"))
)
_BEFORE = (
    select(_prompt.id, _prompt.version)
    .where(_OF_NAME, ~_prompt.is_active, _prompt.activated_at.is_not(None))
    .order_by(_prompt.activated_at.desc())
    .limit(1)
)
_TAKE_BACK = (
    update(system_prompts)
    .where(_OF_NAME, _prompt.is_active)
    .values(is_active=False, activated_at=None)
)
_REINSTATE = update(system_prompts).where(_prompt.id == bindparam("of_id")).values(is_active=True)
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
            last = conn.execute(_LAST_PROMOTION, {"of_name": name}).scalar()
            conn.execute(_DEMOTE, of)
            # Later than the last one whatever the clock says, so that their order is known.
            conn.execute(_PROMOTE, {**of, "at": at if last is None else max(at, last + 1)})

    def pin(self, conn: Connection, user_id: str, name: str, version: str, at: int) -> None:
        """Pin a user to a version. KeyError if there is none such."""
        require(conn, name, version)
        row = {"user_id": user_id, "prompt_name": name, "prompt_version": version}
        conn.execute(self._pin, {**row, "updated_at": at})


def check_names(name: str, version: str) -> None:
    """ValueError for what no version of a prompt may be called."""
    for field, value in (("name", name), ("version", version)):
        if not value.strip():
            raise ValueError(f"{field} of a prompt must not be empty, as {value!r} is")
    if version == ACTIVE:
        raise ValueError(f"{version!r} names the promoted version: call this one something else")


def require(conn: Connection, name: str, version: str) -> str:
    """The text of a version, or of the active one. KeyError if there is none."""
    if version == ACTIVE:
        version = active_version(conn, name)
    found = conn.execute(_FIND, {"of_name": name, "of_version": version}).scalar()
    if found is None:
        raise KeyError(f"no version {version!r} of prompt {name!r}: save it with save_prompt first")
    return str(found)


def active_version(conn: Connection, name: str) -> str:
    """Which version is the active one. KeyError if none is."""
    version: str | None = conn.execute(_FIND_ACTIVE_VERSION, {"of_name": name}).scalar()
    if version is None:
        versions(conn, name)  # which says it if there is no such prompt at all
        raise KeyError(f"no version of prompt {name!r} is active: promote one with save_prompt")
    return version


def pinned(conn: Connection, user_id: str, name: str) -> str | None:
    """The version that a user is pinned to."""
    version: str | None = conn.execute(_PINNED, {"of_user": user_id, "of_name": name}).scalar()
    return version


def roll_back(conn: Connection, name: str) -> str:
    """Take the newest promotion back; says which version is active then.

    KeyError if no other one was active before.
    """
    of = {"of_name": name}
    conn.execute(_LOCK, of)
    require(conn, name, ACTIVE)
    before = conn.execute(_BEFORE, of).first()
    if before is None:
        raise KeyError(f"no other version of prompt {name!r} was active before this one")
    conn.execute(_TAKE_BACK, of)
    conn.execute(_REINSTATE, {"of_id": before.id})
    return str(before.version)


_UNPIN = delete(user_settings).where(
    _setting.user_id == bindparam("of_user"), _setting.prompt_name == bindparam("of_name")
)


def unpin(conn: Connection, user_id: str, name: str) -> None:
    """Let a user have the active version."""
    conn.execute(_UNPIN, {"of_user": user_id, "of_name": name})


_NAMES = select(
    _prompt.name,
    func.max(case((_prompt.is_active, _prompt.version))).label("active"),
    func.count().label("versions"),
    func.max(_prompt.updated_at).label("updated_at"),
).group_by(_prompt.name)


def names(conn: Connection) -> list[Row]:
    """Per prompt, by name."""
    found = [
        {**row, "updated_at": codec.iso_time(row["updated_at"])}
        for row in conn.execute(_NAMES).mappings()
    ]
    return sorted(found, key=lambda row: row["name"])  # databases do not agree on the alphabet


_VERSIONS = (
    select(
        _prompt.version,
        _prompt.is_active,
        _prompt.created_at,
        _prompt.updated_at,
        _prompt.activated_at,
        func.char_length(_prompt.text).label("characters"),
    )
    .where(_OF_NAME)
    .order_by(_prompt.id)
)
_PINS = (
    select(_setting.prompt_version, func.count())
    .where(_setting.prompt_name == bindparam("of_name"))
    .group_by(_setting.prompt_version)
)


def versions(conn: Connection, name: str) -> list[Row]:
    """Per version of a prompt, oldest first. KeyError if there is none."""
    of = {"of_name": name}
    found = conn.execute(_VERSIONS, of).mappings().all()
    if not found:
        raise KeyError(f"there is no prompt {name!r}: save a version with save_prompt")
    pins: dict[str, int] = {version: count for version, count in conn.execute(_PINS, of)}
    return [
        {
            "version": row["version"],
            "is_active": bool(row["is_active"]),
            "created_at": codec.iso_time(row["created_at"]),
            "updated_at": codec.iso_time(row["updated_at"]),
            "activated_at": codec.iso_time_or_none(row["activated_at"]),
            "characters": int(row["characters"]),
            "pinned_users": pins.get(row["version"], 0),
        }
        for row in found
    ]


def _replace_text(old: Columns, new: Columns) -> dict[str, object]:
    return {"text": new["text"], "updated_at": new["updated_at"]}


def _replace_pin(old: Columns, new: Columns) -> dict[str, object]:
    return {"prompt_version": new["prompt_version"], "updated_at": new["updated_at"]}
