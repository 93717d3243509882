"""What the model may do in the shop: four questions, and no change."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any, Literal

from pywrapai_graph import ToolRegistry, tool

LOW_STOCK = 10
Rows = list[dict[str, Any]]
RANKED = {"revenue": "revenue DESC", "units": "units DESC"}


def make_tools(database: Path) -> ToolRegistry:
    """The four tools, on one database."""

    def ask(question: str, values: dict[str, Any]) -> Rows:
        # Read-only, so that nothing that a model thinks of can change the shop.
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as shop:
            shop.row_factory = sqlite3.Row
            return [dict(row) for row in shop.execute(question, values)]

    @tool
    def search_products(text: str = "", in_stock_only: bool = False) -> Rows:
        """Find products by a part of their name, category or supplier.

        Args:
            text: The part to look for, such as "lamp"; empty for all.
            in_stock_only: Leave out what is sold out.
        """
        return ask(
            "SELECT name, category, supplier, price, stock, "
            f"CASE WHEN stock = 0 THEN 'sold out' WHEN stock <= {LOW_STOCK} THEN 'low' "
            "ELSE 'in stock' END AS state FROM products "
            "WHERE instr(lower(name || '|' || category || '|' || supplier), lower(:text)) "
            "AND stock >= :least ORDER BY name",
            {"text": text.strip(), "least": int(in_stock_only)},
        )

    @tool
    def get_sales_stats(since: date | None = None, until: date | None = None) -> Rows:
        """Revenue, units and number of sales of each category, best first.

        Args:
            since: The first day; without it, from the first sale on.
            until: The last day, included; without it, up to the last sale.
        """
        return ask(
            "SELECT category, round(sum(units * sales.price), 2) AS revenue, "
            "sum(units) AS units, count(*) AS sales "
            "FROM sales JOIN products ON products.id = product_id "
            "WHERE sold_on BETWEEN :since AND :until GROUP BY category ORDER BY revenue DESC",
            _days(since, until),
        )

    @tool
    def get_top_sellers(
        by: Literal["revenue", "units"] = "revenue",
        limit: int = 5,
        since: date | None = None,
        until: date | None = None,
    ) -> Rows:
        """The products that sold best.

        Args:
            by: What to rank them by.
            limit: How many, from 1 to 33.
            since: The first day; without it, from the first sale on.
            until: The last day, included; without it, up to the last sale.
        """
        if not 1 <= limit <= 33:
            raise ValueError(f"limit must be from 1 to 33, not {limit}")
        return ask(
            "SELECT name, round(sum(units * sales.price), 2) AS revenue, sum(units) AS units "
            "FROM sales JOIN products ON products.id = product_id "
            "WHERE sold_on BETWEEN :since AND :until "
            f"GROUP BY product_id ORDER BY {RANKED[by]}, name LIMIT :limit",
            {**_days(since, until), "limit": limit},
        )

    @tool
    def get_stock_status() -> dict[str, Any]:
        """The value of all that is in stock, and the products of which few are left."""
        [total] = ask("SELECT round(sum(price * stock), 2) AS value FROM products", {})
        low = ask(
            "SELECT name, supplier, stock FROM products WHERE stock <= :low ORDER BY stock, name",
            {"low": LOW_STOCK},
        )
        return {"inventory_value": total["value"], "low": low}

    registry = ToolRegistry()
    for one in (search_products, get_sales_stats, get_top_sellers, get_stock_status):
        registry.register(one)
    return registry


def _days(since: date | None, until: date | None) -> dict[str, str]:
    return {"since": (since or date.min).isoformat(), "until": (until or date.max).isoformat()}
