"""The shop's database: made up, and the same each time."""

from __future__ import annotations

import sqlite3
from datetime import date, timedelta
from pathlib import Path
from random import Random

SEED = 2026
FIRST_DAY, DAYS = date(2026, 1, 1), 181  # the first half of the year
SALES = 500
SCHEMA = """
CREATE TABLE products (
    id INTEGER PRIMARY KEY, name TEXT, category TEXT, supplier TEXT, price REAL, stock INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE sales (
    id INTEGER PRIMARY KEY, sold_on TEXT, product_id INTEGER REFERENCES products,
    customer_id INTEGER REFERENCES customers, units INTEGER, price REAL);
"""
PRODUCTS = {
    ("Kitchen", "Nordlys"): (
        *("kettle", "toaster", "teapot", "chopping board", "bread knife"),
        *("frying pan", "saucepan"),
    ),
    ("Lighting", "Lumen & Sons"): (
        *("desk lamp", "floor lamp", "bicycle lamp", "string lights", "lantern", "candle holder"),
    ),
    ("Garden", "Greenhand"): (
        *("watering can", "rake", "pruning shears", "plant pot", "garden gloves", "bird feeder"),
        "hose",
    ),
    ("Office", "Paper & Pine"): (
        *("notebook", "fountain pen", "desk organiser", "office chair", "wall calendar"),
        *("stapler", "monitor stand"),
    ),
    ("Textiles", "Weaver's Own"): (
        *("wool blanket", "cushion", "tea towel", "tablecloth", "bath towel", "curtain"),
    ),
}
FIRST_NAMES = ("Ada", "Bo", "Chen", "Dina", "Emeka", "Fatima", "Goran", "Hana")
LAST_NAMES = ("Berg", "Costa", "Ito", "Novak", "Okafor")
CITIES = ("Oslo", "Porto", "Lagos", "Zagreb", "Osaka")


def make_shop(path: Path) -> None:
    """Make the database; if it is there already, leave it as it is."""
    if path.exists():
        return
    made = path.with_name(path.name + ".new")
    made.unlink(missing_ok=True)
    shop = sqlite3.connect(made)
    with shop:
        shop.executescript(SCHEMA)
        _fill(shop, Random(SEED))
    shop.close()
    made.rename(path)  # so that a shop that is there is a whole one


def _fill(shop: sqlite3.Connection, random: Random) -> None:
    products = [
        (name, category, supplier, random.randint(400, 9000) / 100, random.choice(STOCKS))
        for (category, supplier), names in PRODUCTS.items()
        for name in names
    ]
    shop.executemany(
        "INSERT INTO products (name, category, supplier, price, stock) VALUES (?, ?, ?, ?, ?)",
        products,
    )
    customers = [(f"{a} {b}", random.choice(CITIES)) for a in FIRST_NAMES for b in LAST_NAMES]
    shop.executemany("INSERT INTO customers (name, city) VALUES (?, ?)", customers)
    popular = [random.randint(1, 9) for _ in products]
    days = sorted(random.randrange(DAYS) for _ in range(SALES))
    for day in days:
        [product] = random.choices(range(len(products)), popular)
        sold_on = (FIRST_DAY + timedelta(days=day)).isoformat()
        customer, units = random.randint(1, len(customers)), random.choice((1, 1, 1, 2, 2, 3))
        shop.execute(
            "INSERT INTO sales (sold_on, product_id, customer_id, units, price) "
            "VALUES (?, ?, ?, ?, ?)",
            (sold_on, product + 1, customer, units, products[product][3]),
        )


STOCKS = (0, 3, 7, 10, 14, 22, 25, 31, 40, 48, 60, 85)
