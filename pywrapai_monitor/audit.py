"""The audit log: who had which workflow run, with which versions, and what became of it.

Rows hold numbers, names and the rules that were broken, and nothing that a user or a model wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from pywrapai.core.extras import needs

if TYPE_CHECKING:
    from pywrapai_graph.workflows import Actor, ModuleMeta, WorkflowResult
    from pywrapai_monitor.db import BaseStore, Row

__all__ = ["AuditLog", "AuditRow"]

_MOST_AT_ONCE = 1000
_MOST_ATTEMPTS = 2**15 - 1
_DAY_US = 24 * 60 * 60 * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One run of a workflow. Times are ISO 8601 in UTC."""

    id: int
    tenant_id: str
    user_id: str
    role: str
    request_id: str
    module_name: str
    module_version: str
    package_version: str
    model_id: str
    """Empty where no model was asked."""
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None where nobody knows, as of a model without a price."""
    latency_ms: int
    attempts: int
    validated: bool
    """False is human review."""
    rules: tuple[str, ...]
    """Which rules were broken, each once."""
    model_request_ids: tuple[str, ...]
    started_at: str
    finished_at: str
    created_at: str


class AuditLog:
    """The audit log in the database of a store: `AuditLog(monitor.store)`.

    Its table is made when there is none. It may be shared by threads; a tenant's rows are read with
    the tenant's id alone. Deleting a user or old calls from the store leaves it as it is: it has
    ways of its own.

    Raises:
        TypeError: the store is not one of ours on SQLite, PostgreSQL or MySQL.
        StoreError: the database cannot be written, or its table `audit_log` is somebody else's.
    """

    def __init__(self, store: BaseStore) -> None:
        with needs("monitor"):
            from pywrapai_monitor.db.audit import AuditTable
            from pywrapai_monitor.db.transactions import TransactionalStore
        if not isinstance(store, TransactionalStore):
            raise TypeError(
                f"an audit log is kept in an SQLiteStore, PostgresStore or MySQLStore, not in "
                f"{store!r:.80}"
            )
        self._table = AuditTable(store)

    def log_module_call(self, actor: Actor, request_id: str, result: WorkflowResult[Any]) -> int:
        """Keep one run, and say the row's id.

        Raises:
            ValueError: an id cannot be stored as it is, or the result is of another request.
            StoreError: it could not be kept; whether the answer goes out is the caller's decision.
        """
        meta = result.meta
        if meta.request_id != request_id:
            raise ValueError(
                f"the result is of request {meta.request_id!r:.80}, not of {request_id!r:.80}"
            )
        return self._table.append(_row(actor, meta, result))

    def read(
        self,
        tenant_id: str,
        *,
        user_id: str | None = None,
        module_name: str | None = None,
        request_id: str | None = None,
        validated: bool | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[AuditRow]:
        """The runs of one tenant, newest first.

        Args:
            tenant_id: whose; there is no way to read those of all.
            user_id: only those of this user.
            module_name: only those of this module.
            request_id: only those of this request.
            validated: only those that were validated, or were not.
            before: the id of the last row of the page before.
            limit: how many at most, up to 1,000.
        """
        if type(limit) is not int or not 1 <= limit <= _MOST_AT_ONCE:
            raise ValueError(f"limit is {limit!r}; expected 1 to {_MOST_AT_ONCE}")
        if before is not None and type(before) is not int:
            raise ValueError(f"before is {before!r:.80}; expected the id of a row")
        from pywrapai_monitor.db import codec

        wanted: dict[str, Any] = {}
        if user_id is not None:
            wanted["user_id"] = _id("user_id", user_id)
        if module_name is not None:
            wanted["module_name"] = codec.key("module_name", module_name)
        if request_id is not None:
            wanted["request_id"] = codec.key("request_id", request_id)
        if validated is not None:
            wanted["validated"] = validated
        rows = self._table.newest(_id("tenant_id", tenant_id), wanted, before, limit)
        return [AuditRow(**row) for row in rows]

    def delete_user(self, tenant_id: str, user_id: str) -> int:
        """Delete all rows of one user of one tenant; says how many."""
        ids = {"tenant_id": _id("tenant_id", tenant_id), "user_id": _id("user_id", user_id)}
        return self._table.delete_of(ids)

    def delete_tenant(self, tenant_id: str) -> int:
        """Delete all rows of one tenant; says how many."""
        return self._table.delete_of({"tenant_id": _id("tenant_id", tenant_id)})

    def purge_before(self, days: int) -> int:
        """Delete what is older than so many days, of all tenants; says how many rows.

        ValueError below 1.
        """
        from pywrapai_monitor.db.days import whole_number

        return self._table.delete_older(whole_number("days", days) * _DAY_US)


def _id(name: str, value: str) -> str:
    """An id as it is stored. ValueError where that would be the same as somebody else's."""
    from pywrapai_monitor.db import codec

    kept = codec.key(name, value)
    if kept != value:
        raise ValueError(f"{name} is {value!r:.80}, which no database keeps as it is")
    return kept


def _cost_units(cost_usd: float | None) -> int | None:
    from pywrapai_monitor.db import codec

    return None if cost_usd is None or not isfinite(cost_usd) else codec.cost_units(cost_usd)


def _row(actor: Actor, meta: ModuleMeta, result: WorkflowResult[Any]) -> Row:
    from pywrapai_monitor.db import codec, instants

    rules = dict.fromkeys(reason.rule for reason in result.reasons)
    return {
        "tenant_id": _id("tenant_id", actor.tenant_id),
        "user_id": _id("user_id", actor.user_id),
        "role": codec.key("role", actor.role),
        "request_id": codec.key("request_id", meta.request_id),
        "module_name": codec.key("module_name", meta.module_name),
        "module_version": codec.key("module_version", meta.module_version),
        "package_version": codec.label(meta.package_version),
        "model_id": codec.label(meta.model_id),
        "input_tokens": codec.count(meta.usage.input_tokens),
        "output_tokens": codec.count(meta.usage.output_tokens),
        "cost": _cost_units(meta.cost_usd),
        "latency_ms": codec.count(meta.latency_ms),
        "attempts": min(codec.count(meta.attempts), _MOST_ATTEMPTS),
        "validated": result.validated,
        "started_at": codec.moment(instants.micros_at(meta.started_at)),
        "finished_at": codec.moment(instants.micros_at(meta.finished_at)),
        "rules": codec.to_json(list(rules)),
        "model_request_ids": codec.to_json(list(meta.model_request_ids)),
    }
